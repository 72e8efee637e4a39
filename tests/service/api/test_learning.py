from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.live.commands import Command
from cgsa.nn.state import select_prefix
from cgsa.service import commands
from tests.service.running_service import MACHINE, RunningService, running_service

PATH = f"/api/machines/{MACHINE}"


def test_states_are_listed_compared_and_rolled_back_to(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("admin") as client:
        worker = service.plant.worker(MACHINE)
        service.feed(20)
        service.save_states(2)
        service.feed(20, first=20)
        numbers = service.save_states(2)
        listed = client.get(f"{PATH}/states").json()["states"]
        assert [one["number"] for one in listed] == numbers
        first, last = numbers[0], numbers[-1]
        found = client.get(f"{PATH}/states/{first}/differences", params={"to": last}).json()
        assert (found["before"], found["after"]) == (first, last)
        assert 0 < len(found["differences"]) < found["tensors"]
        assert any(one["name"].startswith("method.") and one["relative"] for one in found["differences"])
        same = client.get(f"{PATH}/states/{first}/differences", params={"to": first}).json()
        assert same["differences"] == []
        answer = client.post(f"{PATH}/states/{first}/roll-back", json={"text": "it learnt nonsense"})
        assert (answer.status_code, answer.json()) == (200, {"done": True})
        old = worker.state(first).tensors
        now = {
            f"method.{name}": tensor
            for name, tensor in select_prefix("method", worker.watch.signal.state_dict()).items()
        }
        assert now.keys() <= old.keys()
        assert all(old[name].equal(tensor) for name, tensor in now.items())
        service.plant.store.flush()
        assert client.get("/api/notes", params={"topic": "roll back"}).json()["rows"][0]["details"] == {
            "who": "the-admin",
            "said": "it learnt nonsense",
            "state": first,
        }


def test_an_unknown_state_is_not_found(service: RunningService) -> None:
    with service.client("admin") as client:
        assert client.post(f"{PATH}/states/999999/roll-back", json={}).status_code == 404
        assert client.get(f"{PATH}/states/1/differences", params={"to": 999999}).status_code == 404
        assert client.get(f"{PATH}/states/1/differences").status_code == 422


def test_a_damaged_state_is_a_conflict(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("admin") as client:
        service.feed(10)
        newest = service.save_states(1)[-1]
        path = service.plant.worker(MACHINE).folder / "states" / f"{newest:08d}.state"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(bytes(data))
        answer = client.get(f"{PATH}/states/{newest}/differences", params={"to": newest})
        assert answer.status_code == 409
        assert "damaged" in answer.json()["error"]["message"]
        answer = client.post(f"{PATH}/states/{newest}/roll-back", json={})
        assert answer.status_code == 409


def test_a_command_that_has_to_wait_is_accepted(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "COMMAND_SECONDS", 0.0)
    worker = service.plant.worker(MACHINE)
    with service.client("operator") as client, monkeypatch.context() as busy:
        busy.setattr(worker, "work", lambda: False)
        answer = client.post(f"{PATH}/learning/freeze", json={})
    assert (answer.status_code, answer.json()) == (202, {"done": False})
    service.plant.wait_until_idle()
    assert worker.watch.frozen
    worker.command(Command("thaw", "test")).result(5)
