from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from cgsa import events
from cgsa.live import checkpoint, store, watch, worker
from cgsa.service import auth, comparison, schemas


@pytest.mark.parametrize(
    ("model", "source", "kept_back"),
    [
        (schemas.Trust, events.Trust, set()),
        (schemas.Diagnosis, events.Diagnosis, set()),
        (schemas.Told, store.StoredDiagnosis, set()),
        (schemas.Note, events.Note, set()),
        (schemas.Case, events.Case, set()),
        (schemas.MachineCase, store.StoredCase, set()),
        (schemas.AlarmChange, events.AlarmChange, set()),
        (schemas.Comment, events.Comment, set()),
        (schemas.Label, events.Label, set()),
        (schemas.Counts, watch.WatchCounts, set()),
        (schemas.State, checkpoint.SavedState, {"about"}),
        (schemas.Difference, comparison.Difference, set()),
        (schemas.Token, store.StoredToken, {"digest"}),
        (schemas.Audit, store.AuditEntry, set()),
        (schemas.Me, auth.Person, set()),
    ],
)
def test_an_answer_tells_all_that_is_known(model: type[schemas.Answer], source: Any, kept_back: set[str]) -> None:
    assert set(model.model_fields) == {field.name for field in fields(source)} - kept_back


def test_a_machine_tells_its_whole_status() -> None:
    assert {field.name for field in fields(worker.WorkerStatus)} <= set(schemas.Machine.model_fields)


def test_numbers_that_json_does_not_know_are_null() -> None:
    trust = events.Trust(float("nan"), float("inf"), 0.5, "x")
    told = events.Diagnosis(0, "m", 0.0, 1.0, 1, "wear", {"wear": float("nan")}, None, float("-inf"), trust=trust)
    found = schemas.Diagnosis.model_validate(told)
    assert found.deviation is None
    assert found.probabilities == {"wear": None}
    assert found.trust is not None
    assert (found.trust.agreement, found.trust.coverage, found.trust.accuracy) == (None, None, 0.5)
    note = events.Note("m", 0.0, "gap", "x", {"seconds": float("nan"), "of": (1, {"deep": float("inf")}), "odd": {1}})
    assert schemas.Note.model_validate(note).details == {"seconds": None, "of": [1, {"deep": None}], "odd": "{1}"}
