from __future__ import annotations

import math

import pytest

from cgsa.live.store import RowSelection
from tests.machines import CLASSES, RATE
from tests.service.running_service import BEGIN, MACHINE, RunningService


def test_the_status_of_a_machine(service: RunningService) -> None:
    with service.client("viewer") as client:
        found = client.get(f"/api/machines/{MACHINE}").json()
        assert client.get("/api/machines").json() == {"machines": [found]}
    status = service.plant.worker(MACHINE).status()
    assert found["counts"] == vars(status.counts)
    assert found["diagnosis"]["batch"] == status.counts.batches - 1
    assert (found["standing"], found["learning"], found["problem"]) == ("raised", "learning", None)
    assert (found["case"]["number"], found["case"]["state"]) == (1, "raised")
    assert (found["classes"], found["channels"], found["sample_rate"]) == (list(CLASSES), ["a", "b"], RATE)
    assert found["now"] == pytest.approx(BEGIN + 4.0)


@pytest.mark.parametrize(
    "name",
    [
        "other",
        "..",
        "../pump-1",
        "%2e%2e%2f%2e%2e%2fetc",
        "..%2f..%2fstore.sqlite",
        "a%00b",
        "%C3%A4",
        ".hidden",
        "x" * 65,
    ],
)
def test_no_machine_name_escapes_its_path(service: RunningService, name: str) -> None:
    with service.client("admin") as client:
        for path in ("", "/states", "/ledger?begin=0&end=1", "/cases/1"):
            answer = client.get(f"/api/machines/{name}{path}")
            assert answer.status_code in {404, 422}
            assert set(answer.json()) == {"error"}
        assert client.post(f"/api/machines/{name}/learning/reset", json={}).status_code in {404, 422}
    assert [path.name for path in (service.plant.folder / "machines").iterdir()] == [MACHINE]
    assert {path.name.partition(".")[0] for path in service.plant.folder.iterdir()} == {"machines", "store"}


def test_pages_hold_each_row_once(service: RunningService) -> None:
    with service.plant.store.read() as snapshot:
        expected = [row.diagnosis.batch for row in snapshot.diagnoses(pick=RowSelection(limit=1000)).rows]
    assert len(expected) > 2
    found, after = [], None
    with service.client("viewer") as client:
        while True:
            asked: dict[str, str | int] = {"limit": 2, "machine": MACHINE}
            if after is not None:
                asked["after"] = after
            page = client.get("/api/diagnoses", params=asked).json()
            found += [row["diagnosis"]["batch"] for row in page["rows"]]
            after = page["cursor"]
            if not page["more"]:
                break
        turned = client.get("/api/diagnoses", params={"newest_first": False, "limit": 1000}).json()
        later = client.get("/api/diagnoses", params={"begin": BEGIN + 2, "end": BEGIN + 3}).json()
    assert found == expected
    assert [row["diagnosis"]["batch"] for row in turned["rows"]] == expected[::-1]
    assert all(BEGIN + 2 <= row["diagnosis"]["end"] < BEGIN + 3 for row in later["rows"])


@pytest.mark.parametrize(
    "asked",
    [
        {"after": "nonsense"},
        {"after": "1,99999999999999999999"},
        {"after": "--,1"},
        {"limit": 0},
        {"limit": 1001},
        {"begin": "nan"},
        {"end": "inf"},
        {"begin": -1},
        {"machine": "../x"},
    ],
)
def test_invalid_pages_are_refused(service: RunningService, asked: dict[str, str | int]) -> None:
    with service.client("viewer") as client:
        for path in ("diagnoses", "notes", "cases"):
            answer = client.get(f"/api/{path}", params=asked)
            assert answer.status_code == 422
            assert answer.json()["error"]["kind"] == "invalid"


def test_notes_are_found_by_topic(service: RunningService) -> None:
    with service.client("operator") as client:
        client.post(f"/api/machines/{MACHINE}/learning/freeze", json={})
        client.post(f"/api/machines/{MACHINE}/learning/thaw", json={})
        service.plant.store.flush()
        found = client.get("/api/notes", params={"topic": "freeze", "machine": MACHINE}).json()["rows"]
    assert [row["text"] for row in found] == ["learning is frozen, by the-operator"]
    assert found[0]["details"]["who"] == "the-operator"


def test_the_ledger_of_an_interval_has_columns(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgsa.service.api.machines.ENCODED_VALUES", 3)
    begin, end = BEGIN + 0.5, BEGIN + 2.0
    with service.client("viewer") as client:
        path = f"/api/machines/{MACHINE}/ledger"
        found = client.get(path, params={"begin": begin, "end": end}).json()
        empty = client.get(path, params={"begin": 0, "end": 1}).json()
        few = client.get(path, params={"begin": begin, "end": end, "limit": 10})
    with service.plant.store.read() as snapshot:
        expected = snapshot.ledger(MACHINE, begin, end)
    assert found["windows"] == len(expected["time"]) > 100
    assert found["columns"].keys() == expected.keys()
    assert all(len(column) == found["windows"] for column in found["columns"].values())
    assert found["columns"]["time"] == expected["time"].tolist()  # type: ignore[union-attr] # numbers
    assert set(found["columns"]["verdict"]) <= set(CLASSES)
    # Before the queue is full there is no deviation: what is not a number is null.
    assert not any(isinstance(value, float) and math.isnan(value) for value in found["columns"]["deviation"])
    assert (empty["windows"], empty["columns"]) == (0, {})
    assert few.status_code == 422
    assert "at most 10 are read" in few.json()["error"]["message"]
