from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.machines import ensemble_bundle
from tests.service.running_service import BEGIN, MACHINE, RunningService, running_service
from tests.starts import steady

PATH = f"/api/machines/{MACHINE}"
BLOCKS = 30


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[RunningService]:
    """A service whose machine starts strangely."""
    with running_service(tmp_path, model=ensemble_bundle()) as service:
        service.feed_samples(steady("health", strange=2.0))
        yield service


def commissioning(client: httpx.Client) -> dict[str, object]:
    found: dict[str, object] = client.get(PATH).json()["commissioning"]
    return found


def test_the_question_is_shown_answered_and_audited(asking: RunningService) -> None:
    with asking.client("operator") as client:
        machine = client.get(PATH).json()
        assert machine["commissioning"]["state"] == machine["diagnosis"]["commissioning"]["state"] == "question"
        newest = client.get("/api/diagnoses", params={"limit": 1}).json()["rows"][0]["diagnosis"]
        assert newest["commissioning"] == machine["commissioning"]
        notes = client.get("/api/notes", params={"topic": "commissioning"}).json()["rows"]
        assert notes[0]["text"] == "question: looks like wear; confirm healthy, or mark as faulty"
        answer = client.post(f"{PATH}/commissioning/confirm-healthy", json={"text": "inspected"})
        assert (answer.status_code, answer.json()) == (200, {"done": True})
        assert commissioning(client)["reference"]
        again = client.post(f"{PATH}/commissioning/mark-faulty", json={})
        assert again.status_code == 409
        assert "no question is open" in again.json()["error"]["message"]
    entries = {entry.what: entry for entry in asking.audit()}
    assert entries["confirm healthy"].details == {"text": "inspected"}
    assert (entries["confirm healthy"].who, entries["confirm healthy"].result) == ("the-operator", "ok")
    assert entries["mark faulty"].result.startswith("409 ")


def test_a_faulty_machine_gets_no_reference(asking: RunningService) -> None:
    with asking.client("operator") as client:
        assert client.post(f"{PATH}/commissioning/mark-faulty", json={}).status_code == 200
        assert commissioning(client)["state"] == "faulty"


def test_a_reference_is_taken_back_and_the_commissioning_repeated(asking: RunningService) -> None:
    with asking.client("operator") as client:
        assert client.post(f"{PATH}/commissioning/repeat", json={"healthy": True}).status_code == 200
        assert commissioning(client)["state"] == "waiting"
        asking.feed_samples(steady("health", strange=2.0), first=BLOCKS)
        assert commissioning(client)["reference"]
        assert client.post(f"{PATH}/commissioning/withdraw-reference", json={}).status_code == 200
        assert commissioning(client)["state"] == "withdrawn"
        assert client.post(f"{PATH}/commissioning/repeat", json={}).status_code == 422


def test_a_stretch_that_the_history_does_not_have_is_refused(asking: RunningService) -> None:
    with asking.client("operator") as client:
        wanted = {"begin": BEGIN, "end": BEGIN + 1}
        answer = client.post(f"{PATH}/commissioning/take-reference", json=wanted)
        assert answer.status_code == 409
        assert "the history has no complete block yet" in answer.json()["error"]["message"]


def test_methods_without_commissioning_refuse_its_commands(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("operator") as client:
        service.feed(4)
        assert commissioning(client) is None
        answer = client.post(f"{PATH}/commissioning/confirm-healthy", json={})
        assert answer.status_code == 409
        assert "method cgsa needs no commissioning" in answer.json()["error"]["message"]
