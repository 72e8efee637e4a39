"""Which records a figure is made of, and what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from cgsa.bench.records import RunRecord
from cgsa.online.cgsa import CgsaConfig

OURS = "CGSA"
"""The entry that stands out, and whose choices of windows are drawn."""


def faults_of(records: Sequence[RunRecord]) -> list[str]:
    """Return the faults in the order in which the records come."""
    return list(dict.fromkeys(record.fault for record in records))


def guided(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the records of the one entry whose choices are drawn; none where no method told any."""
    found = [record for record in records if record.details.intervals is not None]
    ours = [record for record in found if record.entry == OURS and record.whole["method"] == "cgsa"]
    return ours or [record for record in found if record.entry == found[0].entry]


def settings_of(record: RunRecord) -> dict[str, object]:
    """Return the settings that the plan gives the method; all others are defaults."""
    return cast(dict[str, object], json.loads(str(record.whole["settings"])))


def cgsa_setting(record: RunRecord, name: str) -> float:
    """Return a number among the settings of CGSA, be it a default."""
    return float(str(settings_of(record).get(name, getattr(CgsaConfig, name))))
