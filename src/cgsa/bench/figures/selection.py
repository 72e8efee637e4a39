"""Selecting the records for a figure, and reading their settings."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cgsa.bench.records import RunRecord
from cgsa.online.cgsa import CgsaConfig

HIGHLIGHTED = "CGSA"
"""The entry that stands out, and whose window selection is drawn."""


def faults_of(records: Sequence[RunRecord]) -> list[str]:
    """Return the faults in the order of the records."""
    return list(dict.fromkeys(record.fault for record in records))


def gated_records(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the records of the entry whose window selection is drawn; empty if no method reports a selection."""
    found = [record for record in records if record.details.intervals is not None]
    ours = [record for record in found if record.entry == HIGHLIGHTED and record.whole_stream["method"] == "cgsa"]
    return ours or [record for record in found if record.entry == found[0].entry]


def settings_of(record: RunRecord) -> dict[str, object]:
    """Return the settings from the plan; all others have their defaults."""
    return dict(json.loads(str(record.whole_stream["settings"])))


def cgsa_setting(record: RunRecord, name: str) -> float:
    """Return a numeric setting of CGSA, or its default."""
    return float(str(settings_of(record).get(name, getattr(CgsaConfig, name))))


def numeric_tau(record: RunRecord) -> float | None:
    """Return the threshold on the deviation; None if it was taken from the model."""
    tau = settings_of(record).get("tau", CgsaConfig.tau)
    return None if isinstance(tau, str) else float(str(tau))
