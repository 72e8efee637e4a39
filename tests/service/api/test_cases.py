from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.service.running_service import BEGIN, MACHINE, RunningService, running_service

CASE = f"/api/machines/{MACHINE}/cases/1"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One of its own: these tests go through a case from its first day to its last."""
    with running_service(tmp_path_factory.mktemp("cases")) as found:
        found.feed(40)
        yield found


@pytest.fixture
def operator(fresh: RunningService) -> Iterator[httpx.Client]:
    with fresh.client("operator") as client:
        yield client


def test_a_case_is_worked_through(fresh: RunningService, operator: httpx.Client) -> None:
    def give(command: str, **said: object) -> tuple[int, dict[str, object]]:
        answer = operator.post(f"{CASE}/{command}", json=said)
        return answer.status_code, answer.json()

    done = (200, {"done": True})
    assert give("shelve", seconds=60, text="known, wait for the shift") == done
    assert give("unshelve") == done
    assert give("acknowledge", text="on my way") == done
    status, refused = give("acknowledge")
    assert (status, refused["error"]["kind"]) == (409, "conflict")  # type: ignore[index] # an error
    assert give("comments", text="bearing is warm") == done
    finding = {"state": "wear", "begin": BEGIN, "end": BEGIN + 2}
    assert operator.post(f"/api/machines/{MACHINE}/labels", json=finding).json() == {"done": True}
    fresh.plant.store.flush()
    found = operator.get(CASE).json()
    assert (found["case"]["state"], found["case"]["acknowledged_by"]) == ("acknowledged", "the-operator")
    assert [change["change"] for change in found["changes"]] == ["acknowledged", "unshelved", "shelved", "opened"]
    assert found["changes"][0]["text"] == "on my way"
    assert [(one["who"], one["text"]) for one in found["comments"]] == [("the-operator", "bearing is warm")]
    assert [(one["state"], one["begin"], one["case"]) for one in found["labels"]] == [("wear", BEGIN, 1)]
    listed = operator.get("/api/cases", params={"only_open": True}).json()["rows"]
    [row] = listed
    assert (row["machine"], row["case"], row["notification"]["state"]) == (MACHINE, found["case"], "none")
    assert give("close") == done
    fresh.plant.store.flush()
    assert operator.get("/api/cases", params={"only_open": True}).json()["rows"] == []
    assert operator.get(CASE).json()["case"]["state"] == "closed"
    assert give("acknowledge")[0] == 409


def test_waveforms_of_a_case_come_as_json_and_as_float32(operator: httpx.Client, fresh: RunningService) -> None:
    info = operator.get(CASE).json()["snippets"][-1]
    path = f"{CASE}/snippets/{info['time']!r}"
    read = operator.get(path).json()
    raw = operator.get(path, params={"form": "float32"})
    assert json.loads(raw.headers["X-CGSA-Channels"]) == info["channels"] == ["a", "b"]
    samples = np.frombuffer(raw.content, "<f4").reshape(2, int(raw.headers["X-CGSA-Samples"]))
    assert samples.shape[1] == info["count"] > 0
    assert np.array_equal(np.array(read["samples"], np.float32), samples)
    with fresh.plant.store.read() as snapshot:
        kept = snapshot.snippets(MACHINE, case=1).rows
    assert any(np.array_equal(one.samples, samples) for one in kept)
    assert operator.get(f"{CASE}/snippets/1.25").status_code == 404


@pytest.mark.parametrize(
    ("command", "said", "where"),
    [
        ("shelve", {"seconds": 60}, "body.text"),
        ("shelve", {"seconds": 0, "text": "x"}, "body.seconds"),
        ("shelve", {"seconds": "nan", "text": "x"}, "body.seconds"),
        ("shelve", {"seconds": 1e9, "text": "x"}, "body.seconds"),
        ("comments", {"text": "  "}, "body.text"),
        ("comments", {"text": "x" * 4001}, "body.text"),
        ("comments", {"text": "\ud800"}, "body.text"),
        ("comments", {"text": "x", "\ud800": 1}, "body"),
        ("acknowledge", {"text": 5}, "body.text"),
        ("acknowledge", {"who": "somebody else"}, "body.who"),
        ("close", [], "body"),
    ],
)
def test_an_invalid_form_is_refused_with_its_field(
    operator: httpx.Client, command: str, said: object, where: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = operator.post(f"{CASE}/{command}", content=json.dumps(said), headers=headers)
    assert answer.status_code == 422
    assert answer.json()["error"]["where"] == where


@pytest.mark.parametrize("finding", [{"begin": 2, "end": 1}, {"begin": 1, "end": 1}])
def test_a_label_of_no_time_is_refused(operator: httpx.Client, finding: dict[str, float]) -> None:
    answer = operator.post(f"/api/machines/{MACHINE}/labels", json={"state": "wear", **finding})
    assert answer.status_code == 409
    assert "expected finite times in order" in answer.json()["error"]["message"]


def test_unknown_cases_are_not_found(operator: httpx.Client) -> None:
    for number in ("2", "999999"):
        assert operator.get(f"/api/machines/{MACHINE}/cases/{number}").status_code == 404
        assert operator.post(f"/api/machines/{MACHINE}/cases/{number}/close", json={}).status_code == 404
    for number in ("0", "-1", "x", str(2**63)):
        assert operator.get(f"/api/machines/{MACHINE}/cases/{number}").status_code == 422


def test_a_command_is_for_the_case_that_the_person_saw(tmp_path: Path) -> None:
    with running_service(tmp_path) as found, found.client("operator") as client:
        found.feed(40)
        desk = found.plant.worker(MACHINE).watch.alarms
        assert client.post(f"{CASE}/close", json={}).status_code == 200
        found.feed(40, first=40)
        assert desk.case is not None
        assert desk.case.number == 2
        answer = client.post(f"{CASE}/acknowledge", json={})
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == f"case 1 of {MACHINE} is over; its newest is 2"
