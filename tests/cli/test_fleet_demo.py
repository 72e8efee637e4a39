from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from cgsa.cli import fleet_demo
from cgsa.cli.serve_run import LINK_FILE
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import ConfigError
from cgsa.fleet.log.nats_server import free_port
from cgsa.service.demo import DEMO_MACHINES
from tests.fleet.conftest import install_server
from tests.machines import RATE, bundle

SHORT = "import sys; from cgsa.service import demo; demo.PROFILE = 'paper'; from cgsa.cli import main; main()"
"""The command, with the profile of the model below."""


def command(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SHORT, "fleet", "--demo", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )


def prepare(folder: Path) -> None:
    """Put a model and streams where the demo expects them, so that it simulates and trains nothing."""
    bundle().save(folder / "model")
    rng = np.random.default_rng(0)
    for machine in DEMO_MACHINES:
        for part in ("first", "then"):
            noise = rng.standard_normal((2, round(4 * RATE))).astype(np.float32)
            path = folder / "streams" / f"{machine.name}-{part}.parquet"
            path.parent.mkdir(exist_ok=True)
            write_parquet(Recording(noise, RATE, ("a", "b"), ("", "")), path)


def test_the_demo_shows_verdicts_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    install_server()
    prepare(tmp_path / "demo")
    port = free_port()
    running = command(tmp_path, "--folder", "demo", "--port", str(port))
    link, limit = tmp_path / "demo" / "fleet" / LINK_FILE, time.monotonic() + 300
    try:
        while not link.exists():
            assert running.poll() is None, running.communicate()[0]
            assert time.monotonic() < limit
            time.sleep(0.2)
        address, _, token = link.read_text().strip().partition("/login#")
        with httpx.Client(base_url=address, timeout=20) as client:
            machines = shown(client, token, limit)
            assert [one["machine"] for one in machines] == [f"gearbox-{number}" for number in range(1, 5)]
            assert {one["work"] for one in machines} == {"working"}
            # The page is that of a service; its list is filled from the same status.
            logged_in = client.post("/login", data={"token": token}, headers={"Origin": address})
            assert logged_in.status_code == 303
            page = client.get("/")
            assert (page.status_code, "Machines" in page.text) == (200, True)
    finally:
        running.send_signal(signal.SIGINT)
        output = running.communicate(timeout=120)[0]
    assert "4 machines on 2 shards" in output
    assert "saving all machines" in output
    assert "Traceback" not in output
    saved = tmp_path / "demo" / "fleet" / "states" / "machines"
    assert all(any((saved / f"gearbox-{number}").iterdir()) for number in range(1, 5))


def shown(client: httpx.Client, token: str, limit: float) -> list[dict[str, object]]:
    """Return all machines once each has a verdict."""
    while True:
        try:
            answer = client.get("/api/machines", headers={"Authorization": f"Bearer {token}"})
        except httpx.TransportError:
            answer = None
        found = [] if answer is None else sorted(answer.json()["machines"], key=lambda one: str(one["machine"]))
        if len(found) == 4 and all(one["diagnosis"] for one in found):
            return found
        assert time.monotonic() < limit, found
        time.sleep(0.2)


def test_a_missing_server_is_said_before_anything_is_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgsa.fleet.log.nats_server.shutil.which", lambda *_, **__: None)
    with pytest.raises(ConfigError, match="no nats-server; install it"):
        fleet_demo.run_fleet_demo(tmp_path / "demo", 1)
    assert not (tmp_path / "demo").exists()
