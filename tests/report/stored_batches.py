"""Stored diagnoses of a machine, one batch per second."""

from __future__ import annotations

from cgsa.events import Diagnosis, Trust
from cgsa.live.store import StoredDiagnosis

BEGUN = 1_700_000_000.0


def stored_batch(batch: int, *, state: str = "health", flagged: int = 0, seconds: float = 1.0) -> StoredDiagnosis:
    trusted = 256 - flagged
    diagnosis = Diagnosis(
        batch=batch,
        source="press",
        begin=BEGUN + batch * seconds,
        end=BEGUN + (batch + 1) * seconds,
        windows=256,
        verdict=state,
        probabilities={"health": 0.9, "$wear$": 0.1} if trusted else {},
        accepted=trusted // 2,
        deviation=0.01,
        state=state,
        trust=Trust(1.0, 0.5, 0.8, "learning"),
        flagged={"flat line": flagged} if flagged else {},
    )
    return StoredDiagnosis("press", diagnosis, flagged, 0.4)
