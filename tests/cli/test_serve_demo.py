from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cgsa.cli import serve_demo
from cgsa.cli.serve_run import LINK_FILE
from cgsa.errors import ConfigError
from cgsa.live.store import Store
from cgsa.service import demo
from cgsa.service.auth import Authenticator
from cgsa.service.config import ServiceConfig
from tests.service.sources.counterparts import free_port


def test_the_page_is_there_before_the_demo_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port, handlers = free_port(), list(logging.getLogger().handlers)
    seen: list[object] = []

    def prepare(folder: Path, report: Callable[[str, int, int], None], *, workers: int) -> None:
        assert (folder / "plant" / LINK_FILE).exists(), "the link can be opened already"
        report(demo.SIMULATING, 3, 8)
        report(demo.SIMULATING, 4, 8)
        seen.append(httpx.get(f"http://127.0.0.1:{port}/starting", timeout=20).json()["steps"][0])

    def run(settings: ServiceConfig, sent: Any = None, listening: socket.socket | None = None) -> None:
        assert listening is not None
        seen.append(listening.getsockname()[1])
        token = (Path(settings.folder) / LINK_FILE).read_text().strip().partition("#")[2]
        store = Store(Path(settings.folder) / "store.sqlite")
        seen.append(getattr(Authenticator(store).by_token(token), "role", None))
        store.close()

    monkeypatch.setattr(demo, "prepare_demo", prepare)
    monkeypatch.setattr(serve_demo, "run_service", run)
    try:
        serve_demo.run_demo(tmp_path, {"port": port})
    finally:
        for handler in set(logging.getLogger().handlers) - set(handlers):
            logging.getLogger().removeHandler(handler)
    step, listening, role = seen
    assert isinstance(step, dict)
    assert (step["name"], step["done"], step["total"]) == (demo.SIMULATING, 4, 8)
    assert (listening, role) == (port, "admin")
    assert capsys.readouterr().err.count(demo.SIMULATING) == 1


def test_a_port_that_is_taken_is_said_before_anything_is_simulated(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = ServiceConfig(folder=str(tmp_path / "plant"), port=port)
        with pytest.raises(ConfigError, match=rf"cannot listen at 127\.0\.0\.1, port {port} \(.*\); choose another"):
            serve_demo.listening_socket(settings)
