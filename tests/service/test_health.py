from __future__ import annotations

from dataclasses import replace

import pytest

from cgsa import __version__
from cgsa.live.worker import Worker, WorkerStatus
from tests.service.running_service import MACHINE, RunningService


def test_health_reports_a_live_process(service: RunningService) -> None:
    with service.client(None) as client:
        assert client.get("/health").json() == {"alive": True, "version": __version__}


def test_readiness_has_reasons(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Worker.status

    def troubled(worker: Worker) -> WorkerStatus:
        return replace(real(worker), learning="catching up", problem=f"{service.plant.folder}: no space left")

    with service.client(None) as client:
        assert client.get("/ready").json() == {"ready": True, "reasons": []}
        monkeypatch.setattr(Worker, "status", troubled)
        monkeypatch.setattr(service.plant.store._writer, "problem", "/var/lib/store.sqlite: cannot be written")
        answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert len(answer.json()["reasons"]) == 3
    # Anybody may ask, so neither names nor places are shown.
    assert MACHINE not in answer.text
    assert "/" not in answer.text
