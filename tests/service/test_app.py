from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cgsa.live.plant import MachineConfig, Plant
from cgsa.service import app as module
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.links.link import Link, LinkStatus
from cgsa.service.rights import Person
from tests.machines import bundle
from tests.service.running_service import RunningService, running_service, serving


class Worker:
    """A source or a sink that writes down what happens to it."""

    status = LinkStatus("test", "test", "up", 0.0)
    deliveries: tuple[Link, ...] = ()
    calendar = SimpleNamespace(run=lambda: asyncio.sleep(3600))
    """Nobody asks here when machines are under maintenance."""

    def __init__(self, name: str, diary: list[str], *, fails: bool = False) -> None:
        self._name, self._diary, self._fails = name, diary, fails

    def __iter__(self) -> Iterator[Link]:
        return iter(self.deliveries)

    async def run(self) -> None:
        self._diary.append(f"{self._name} runs")
        if self._fails:
            raise ValueError(f"{self._name} is broken")
        try:
            await asyncio.Event().wait()
        finally:
            self._diary.append(f"{self._name} ends")

    def close(self) -> None:
        self._diary.append(f"{self._name} closes")


def test_sources_and_sinks_run_as_long_as_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diary: list[str] = []
    stop = Plant.stop

    def stopped(plant: Plant) -> None:
        diary.append("plant stops")
        stop(plant)

    monkeypatch.setattr(Plant, "stop", stopped)
    with running_service(tmp_path, sources=[Worker("source", diary)], sinks=Worker("sink", diary)) as service:
        service.feed(5)
        assert sorted(diary) == ["sink runs", "source runs"]
        saved = service.plant.worker("pump-1").position
    assert sorted(diary[2:4]) == ["sink ends", "source ends"]
    assert diary[4:] == ["plant stops", "sink closes"]
    # What was in work when it ended was saved: the next one resumes there.
    with Plant(tmp_path / "plant", threads=1) as plant:
        worker = plant.add(MachineConfig("pump-1", tmp_path / "model", profile="paper"))
        assert worker.position >= saved


def test_a_failing_source_is_logged_and_affects_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    diary: list[str] = []
    broken = Worker("source", diary, fails=True)
    with (
        caplog.at_level(logging.ERROR),
        running_service(tmp_path, sources=[broken]) as service,
        service.client(None) as client,
    ):
        assert client.get("/health").status_code == 200
    assert "Worker ended" in caplog.text
    assert "source is broken" in caplog.text


def test_the_plant_can_belong_to_the_caller(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1) as plant:
        with serving(create_app(plant, Authenticator(plant.store), runs_plant=False, dashboard=False)):
            pass
        plant.add(MachineConfig("pump-1", tmp_path / "model", profile="paper"))
        plant.store.flush()  # still open


def test_without_their_dependencies_there_are_no_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=wanted)

    monkeypatch.setattr(module, "import_module", missing)
    wanted = "nicegui"
    with running_service(tmp_path, dashboard=True) as service, service.client("viewer") as client:
        assert client.get("/api/me").status_code == 200
        assert client.get("/").status_code == 404
    assert "no dashboard: nicegui is missing" in caplog.text
    wanted = "cgsa.service.dashboard.fleet"
    with Plant(tmp_path / "other", threads=1) as plant, pytest.raises(ModuleNotFoundError):
        create_app(plant, Authenticator(plant.store), runs_plant=False)


def test_pages_are_mounted_if_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted: list[object] = []
    pages = SimpleNamespace(mount_pages=lambda *parts: mounted.extend(parts))
    monkeypatch.setattr(
        module, "import_module", lambda name: pages if name == "cgsa.service.dashboard.router" else None
    )
    with Plant(tmp_path, threads=1) as plant:
        authenticator = Authenticator(plant.store)
        app = create_app(plant, authenticator, runs_plant=False)
    assert mounted == [app, app.state.context]
    assert app.state.context.plant is plant


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api", 404),
        ("GET", "/api/", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/machines/", 404),
        ("PUT", "/api/machines", 405),
        ("DELETE", "/health", 405),
        ("PATCH", "/login", 405),
        ("POST", "/metrics", 405),
        ("GET", "/api/me?x=%ff%fe", 200),
    ],
)
def test_every_error_has_the_same_shape(service: RunningService, method: str, path: str, status: int) -> None:
    with service.client("viewer") as client:
        answer = client.request(method, path)
    assert answer.status_code == status
    if status != 200:
        assert set(answer.json()["error"]) == {"kind", "message", "where"}


def test_an_internal_error_has_the_same_shape(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise builtins.ZeroDivisionError("a bug")

    monkeypatch.setattr(service.plant.store, "read", broken)
    # The authenticator reads tokens from the store as well.
    monkeypatch.setattr(service.authenticator, "by_token", lambda _: Person("x", "admin"))
    with service.client("viewer") as client:
        answer = client.get("/api/notes")
    assert answer.status_code == 500
    assert answer.json()["error"]["kind"] == "bug"
    assert "ZeroDivision" not in answer.text
