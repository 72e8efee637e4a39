"""What goes over the API: answers as they are documented, and strict forms for what comes in.

Answers are made from the objects of the live part by their fields; numbers that
JSON does not know become ``null``.
"""

from __future__ import annotations

from cgsa.service.schemas.base import Answer, Error, ErrorDetail, Form, Page, plain
from cgsa.service.schemas.forms import Finding, NewToken, Remark, Said, Shelving
from cgsa.service.schemas.machines import (
    AlarmChange,
    Case,
    CaseFile,
    Comment,
    Counts,
    Diagnosis,
    Difference,
    Differences,
    Label,
    Ledger,
    Machine,
    MachineCase,
    Machines,
    Note,
    SnippetInfo,
    State,
    States,
    Told,
    Trust,
    Waveform,
)
from cgsa.service.schemas.service import Audit, Done, FreshToken, Health, Me, Ready, Taken, Token, Tokens

__all__ = [
    "AlarmChange",
    "Answer",
    "Audit",
    "Case",
    "CaseFile",
    "Comment",
    "Counts",
    "Diagnosis",
    "Difference",
    "Differences",
    "Done",
    "Error",
    "ErrorDetail",
    "Finding",
    "Form",
    "FreshToken",
    "Health",
    "Label",
    "Ledger",
    "Machine",
    "MachineCase",
    "Machines",
    "Me",
    "NewToken",
    "Note",
    "Page",
    "Ready",
    "Remark",
    "Said",
    "Shelving",
    "SnippetInfo",
    "State",
    "States",
    "Taken",
    "Token",
    "Tokens",
    "Told",
    "Trust",
    "Waveform",
    "plain",
]
