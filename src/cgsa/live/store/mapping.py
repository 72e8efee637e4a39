"""How events become rows, and rows become events again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Case, Comment, Diagnosis, Label, Note, Trust
from cgsa.live.store.packing import pack_samples, to_text, unpack_samples
from cgsa.live.store.rows import AuditEntry, Snippet, StoredCase, StoredDiagnosis, StoredToken

Value: TypeAlias = str | int | float | bytes | None
Fields: TypeAlias = Mapping[str, Value]
Statement: TypeAlias = tuple[str, tuple[Value, ...]]
"""SQL, and the values for its question marks."""

OF_DIAGNOSIS = ("batch", "source", "begin", "windows", "verdict", "accepted", "deviation", "state", "alarm")
"""What a row holds of a diagnosis as it is."""


def insertion(table: str, row: Mapping[str, Value], key: str = "") -> Statement:
    """Return what adds a row where its key is new, and else changes nothing."""
    names = ", ".join(f'"{name}"' for name in row)
    once = f" ON CONFLICT ({key}) DO NOTHING" if key else ""
    sql = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))}){once}"  # noqa: S608 - names are the package's own, values are bound
    return sql, tuple(row.values())


def change_statements(place: Fields, event: AlarmChange) -> tuple[Statement, Statement]:
    """Return what writes a change, and the case as it is after it if no later change has been written yet."""
    case = event.case
    row = {**place, **vars(case), "faults": to_text(case.faults), "time": case.opened}
    insert, values = insertion("cases", row)
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in row)
    upsert = (
        f"{insert} ON CONFLICT (machine, number) DO UPDATE SET {updates} "
        'WHERE (excluded.position, excluded."index") > (position, "index")'
    )
    change: Fields = {
        **place,
        "number": case.number,
        "change": event.change,
        "fault": event.fault,
        "notify": event.notify,
        "who": event.who,
        "text": event.text,
        "case": to_text(asdict(case)),
    }
    return (upsert, values), insertion("alarm_changes", change, 'machine, position, "index"')


def event_row(event: Comment | Label | Note | Snippet) -> tuple[str, Fields]:
    """Return the table of an event, and its row but for its place."""
    if isinstance(event, Comment):
        return "comments", {"number": event.case, "who": event.who, "text": event.text}
    if isinstance(event, Label):
        span: Fields = {"begin": event.begin, "end": event.end}
        return "labels", {"number": event.case, "who": event.who, "state": event.state, **span}
    if isinstance(event, Note):
        return "notes", {"topic": event.topic, "text": event.text, "details": to_text(event.details)}
    if event.samples.shape[:1] != (len(event.channels),) or event.samples.ndim != 2:
        raise DataError(f"snippet of {event.machine}: {event.samples.shape} samples for {len(event.channels)} channels")
    return "snippets", {
        "number": event.case,
        "sample_rate": event.sample_rate,
        "channels": to_text(event.channels),
        "samples": event.samples.shape[1],
        "data": pack_samples(event.samples),
    }


def told_of(row: sqlite3.Row) -> StoredDiagnosis:
    """Return the diagnosis in a row of ``diagnoses``."""
    trust = None
    if row["note"] is not None:
        trust = Trust(row["agreement"], row["coverage"], row["accuracy"], row["note"])
    diagnosis = Diagnosis(
        **{name: row[name] for name in OF_DIAGNOSIS},
        end=row["time"],
        probabilities=json.loads(row["probabilities"]),
        trust=trust,
    )
    return StoredDiagnosis(row["machine"], diagnosis, row["flagged"], row["response"])


def note_of(row: sqlite3.Row) -> Note:
    """Return the note in a row of ``notes``."""
    return Note(row["machine"], row["time"], row["topic"], row["text"], json.loads(row["details"]))


def case_of(row: sqlite3.Row) -> StoredCase:
    """Return the case in a row of ``cases``."""
    same = [name for name in Case.__dataclass_fields__ if name != "faults"]
    case = Case(**{name: row[name] for name in same}, faults=tuple(json.loads(row["faults"])))
    return StoredCase(row["machine"], case)


def change_of(row: sqlite3.Row) -> AlarmChange:
    """Return the change in a row of ``alarm_changes``, with the case as it was after it."""
    case: dict[str, Any] = json.loads(row["case"])
    return AlarmChange(
        **{name: row[name] for name in ("machine", "time", "change", "fault", "who", "text")},
        notify=bool(row["notify"]),
        case=Case(**{**case, "faults": tuple(case["faults"])}),
    )


def comment_of(row: sqlite3.Row) -> Comment:
    """Return the comment in a row of ``comments``."""
    return Comment(row["machine"], row["time"], row["number"], row["who"], row["text"])


def label_of(row: sqlite3.Row) -> Label:
    """Return the label in a row of ``labels``."""
    same = ("machine", "time", "who", "state", "begin", "end")
    return Label(**{name: row[name] for name in same}, case=row["number"])


def snippet_of(row: sqlite3.Row) -> Snippet:
    """Return the waveform in a row of ``snippets``."""
    channels = tuple(json.loads(row["channels"]))
    samples = unpack_samples(row["data"], len(channels), row["samples"])
    return Snippet(row["machine"], row["time"], row["number"], row["sample_rate"], channels, samples)


def audit_of(row: sqlite3.Row) -> AuditEntry:
    """Return the entry in a row of ``audit``."""
    same = ("time", "who", "what", "machine", "origin", "result")
    return AuditEntry(**{name: row[name] for name in same}, details=json.loads(row["details"]))


def token_of(row: sqlite3.Row) -> StoredToken:
    """Return the token in a row of ``tokens``."""
    return StoredToken(**{name: row[name] for name in StoredToken.__dataclass_fields__})
