from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter

from cgsa import events
from cgsa.live import state_file, store, worker_status
from cgsa.service import comparison, rights, schemas
from cgsa.service.api import ROUTERS, describe_api
from cgsa.service.sinks import delivery_log


@pytest.fixture(scope="module")
def components() -> dict[str, Any]:
    api = FastAPI()
    for router in ROUTERS:
        api.include_router(router)
    found: dict[str, Any] = describe_api(api)["components"]["schemas"]
    return found


@pytest.mark.parametrize(
    ("name", "source", "hidden"),
    [
        ("Trust", events.Trust, set()),
        ("Diagnosis", events.Diagnosis, set()),
        ("StoredDiagnosis", store.StoredDiagnosis, set()),
        ("Note", events.Note, set()),
        ("Case", events.Case, set()),
        ("NotificationSummary", delivery_log.NotificationSummary, set()),
        ("DeliveryInfo", store.DeliveryRecord, {"machine", "position", "index", "case", "event"}),
        ("AlarmChange", events.AlarmChange, set()),
        ("Comment", events.Comment, set()),
        ("Label", events.Label, set()),
        ("Difference", comparison.Difference, set()),
        ("AuditEntry", store.AuditEntry, set()),
        ("Person", rights.Person, set()),
        ("RowPage_Note_", store.RowPage, set()),
        ("StateInfo", state_file.SavedState, {"about"}),
        ("TokenInfo", store.StoredToken, {"digest", "previous"}),
    ],
)
def test_the_description_has_every_field_of_its_source(
    components: dict[str, Any], name: str, source: Any, hidden: set[str]
) -> None:
    names = {field.name for field in fields(source)} - hidden
    assert set(components[name]["properties"]) == names
    assert set(components[name]["required"]) == names, "an answer always has all its fields"
    assert components[name]["description"]


def test_field_docstrings_are_the_description(components: dict[str, Any]) -> None:
    properties = components["Diagnosis"]["properties"]
    assert properties["batch"]["description"] == "Number of the batch in the stream, from 0."
    assert components["Trust"]["properties"]["accuracy"]["description"] == "Estimated share of correct diagnoses."
    assert components["RowPage_ListedCase_"]["properties"]["more"]["description"]


def test_a_machine_has_its_whole_status() -> None:
    known = {field.name for field in fields(worker_status.WorkerStatus)}
    # Users read in `learning` whether it is frozen.
    assert known - {"frozen"} <= set(schemas.MachineStatus.model_fields)


def test_numbers_that_json_does_not_know_are_null() -> None:
    def dumped(kind: Any, value: Any) -> Any:
        return json.loads(TypeAdapter(kind).dump_json(value))

    trust = events.Trust(float("nan"), float("inf"), 0.5, "x")
    diagnosis = events.Diagnosis(0, "m", 0.0, 1.0, 1, "wear", {"wear": float("nan")}, None, float("-inf"), trust=trust)
    found = dumped(events.Diagnosis, diagnosis)
    assert found["deviation"] is None
    assert found["probabilities"] == {"wear": None}
    assert found["trust"] == {"agreement": None, "coverage": None, "accuracy": 0.5, "note": "x"}
    note = events.Note("m", 0.0, "gap", "x", {"seconds": float("nan"), "of": (1, {"deep": float("inf")})})
    page = dumped(store.RowPage[events.Note], store.RowPage((note,), None, more=False))
    assert page["rows"][0]["details"] == {"seconds": None, "of": [1, {"deep": None}]}
