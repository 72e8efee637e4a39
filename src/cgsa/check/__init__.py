"""Checks of a data set: what is wrong with recordings before a model is trained on them.

Each check is one function in one module of :mod:`cgsa.check.checks`. It receives what was measured of all recordings
and yields findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cgsa.check.data_set import DataSummary
from cgsa.check.finding import Finding
from cgsa.check.recordings import LabelledRecording
from cgsa.check.summary import Measurement
from cgsa.registry import Registry


@dataclass(frozen=True)
class Check:
    """One question to a set of recordings."""

    summary: str
    """What it looks for, in one line."""
    find: Callable[[DataSummary], Iterator[Finding]]
    needs: frozenset[Measurement] = frozenset()
    """What must be measured for it besides statistics and levels."""
    before_training: bool = False
    """Whether it can stop a training, and therefore runs before each."""


CHECKS: Registry[Check] = Registry(
    "check of the data",
    "cgsa.checks",
    {
        name: f"cgsa.check.checks.{name}:CHECK"
        for name in (
            "channel_layout",
            "clipping",
            "coverage",
            "dead_channel",
            "doubled",
            "drift",
            "dropout",
            "duration",
            "imbalance",
            "leakage",
            "missing_values",
            "occasion",
            "offset_jump",
            "quantisation",
            "reader_notes",
            "repeated",
            "sample_rate",
            "stated_speed",
            "swapped_channels",
            "unit_slip",
            "unreadable",
        )
    },
)

__all__ = ["CHECKS", "Check", "DataSummary", "Finding", "LabelledRecording"]
