from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa import __version__
from cgsa.live.retries import Problem
from cgsa.live.worker import Worker
from cgsa.live.worker_status import WorkerStatus
from tests.service.running_service import BINARY, MACHINE, RunningService, block, running_service


def test_health_reports_a_live_process(service: RunningService) -> None:
    with service.client(None) as client:
        assert client.get("/health").json() == {"alive": True, "version": __version__}


def test_readiness_has_reasons(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Worker.status

    def troubled(worker: Worker) -> WorkerStatus:
        reason = f"{service.plant.folder}: cannot be written (No space left on device)"
        failing = Problem("save the state", "No space left on device", reason, 0.0, 3)
        return replace(real(worker), work="retrying", problem=reason, problems=(failing,))

    with service.client(None) as client:
        assert client.get("/ready").json() == {"ready": True, "reasons": [], "machines": []}
        monkeypatch.setattr(Worker, "status", troubled)
        monkeypatch.setattr(service.plant.store._writer, "problem", "/var/lib/store.sqlite: cannot be written")
        answer = client.get("/ready")
    with service.client("viewer") as client:
        (machine,) = client.get("/ready").json()["machines"]
    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert answer.json()["reasons"] == [
        "1 of 1 machines cannot save the state (No space left on device)",
        "the store cannot be written",
    ]
    assert (machine["machine"], machine["work"]) == (MACHINE, "retrying")
    assert machine["problem"].endswith("cannot be written (No space left on device)")
    assert machine["problems"][0]["attempts"] == 3
    # Anybody may ask, so neither names nor places are shown.
    assert MACHINE not in answer.text
    assert "/" not in answer.text


@pytest.mark.parametrize("token", [None, "cgsa.nobody.wrong", "nonsense"])
def test_only_a_valid_token_shows_names(service: RunningService, token: str | None) -> None:
    with service.client(token) as client:
        answer = client.get("/ready")
    assert answer.status_code == 200
    assert MACHINE not in answer.text


def test_a_stopped_machine_is_reported_and_its_blocks_are_refused(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("operator") as client:
        service.feed(3)
        service.plant.worker(MACHINE).fail("the watch stopped: IndexError('x'); restart the service")
        sent = client.post("/api/blocks", content=block(3).to_bytes(), headers=BINARY)
        ready, metrics = client.get("/ready"), client.get("/metrics").text
        status = client.get(f"/api/machines/{MACHINE}").json()
    assert (sent.status_code, sent.headers["Retry-After"]) == (503, "1")
    assert "not monitored at present: the watch stopped: IndexError" in sent.json()["error"]["message"]
    assert (ready.status_code, ready.json()["machines"][0]["work"]) == (503, "stopped")
    assert ready.json()["reasons"] == ["1 of 1 machines are stopped by a fault of the program; see the log"]
    assert f'cgsa_work{{machine="{MACHINE}",state="stopped"}} 1.0' in metrics
    assert status["work"] == "stopped"
