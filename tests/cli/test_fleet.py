from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from cgsa.errors import ConfigError
from cgsa.fleet.config import FleetConfig
from cgsa.fleet.log.jetstream import JetStreamLog
from cgsa.fleet.log.nats_server import NatsServer, free_port
from tests.fleet.conftest import install_server
from tests.fleet.machines import blocks_of, model_in, publish
from tests.postgres import PostgresServer

FLEET = """
folder = "data"
shards = 2
[log.nats]
servers = ["{address}"]
[shard]
checkpoint_seconds = 0.5
[ray]
cpus_per_shard = 0.5
[store]
url = "{store}"
[service]
port = {port}
[[machines]]
name = "m1"
bundle = "{model}"
profile = "paper"
[[machines]]
name = "m2"
bundle = "{model}"
profile = "paper"
"""


def cgsa(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cgsa", "fleet", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )


def status(folder: Path, *options: str) -> dict[str, dict[str, object]]:
    asked = cgsa("fleet.toml", "--status", "--json", *options, folder=folder)
    answer = asked.communicate(timeout=120)[0]
    assert asked.returncode == 0, answer
    return {row["machine"]: row for row in json.loads(answer.splitlines()[-1])["machines"]}


def diagnoses(folder: Path, port: int) -> list[dict[str, object]] | None:
    """Return what the API has, as whoever got the first link; None while nobody answers."""
    try:
        token = (folder / "login-link").read_text().strip().partition("#")[2]
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"http://127.0.0.1:{port}/api/diagnoses", headers=headers, timeout=60)
    except (FileNotFoundError, httpx.TransportError):
        return None
    rows: list[dict[str, object]] = answer.json()["rows"]
    return rows


def test_a_fleet_with_postgresql_is_started_asked_changed_and_stopped(tmp_path: Path, postgres: PostgresServer) -> None:
    install_server()
    model, port = model_in(tmp_path), free_port()
    with NatsServer(tmp_path / "nats") as server, postgres.database() as store:
        settings = {"address": server.address, "model": model.name, "port": port, "store": str(store)}
        (tmp_path / "fleet.toml").write_text(FLEET.format(**settings))
        running = cgsa("fleet.toml", folder=tmp_path)
        try:
            config = FleetConfig.load(tmp_path / "fleet.toml")
            limit = time.monotonic() + 300
            while running.poll() is None and not (tmp_path / "data" / "ray" / "address").exists():
                assert time.monotonic() < limit
                time.sleep(0.2)
            with JetStreamLog(config.log) as log:
                for name in ("m1", "m2"):
                    publish(log, blocks_of(name))
                while not all(log.processed().get(name, 0) >= log.end(name) for name in ("m1", "m2")):
                    assert running.poll() is None, running.communicate()[0]
                    assert time.monotonic() < limit
                    time.sleep(0.1)
                ends = {name: log.end(name) for name in ("m1", "m2")}
                # The shards have written the database themselves, and the pages read it.
                while (rows := diagnoses(tmp_path / "data", port)) is None:
                    assert time.monotonic() < limit
                    time.sleep(0.2)
                assert {row["machine"] for row in rows} == {"m1", "m2"}
                assert not (tmp_path / "data" / "store.sqlite").exists()
                found = status(tmp_path, "--move", "m1", "s2", "--remove", "m2")
                assert {name: row["shard"] for name, row in found.items()} == {"m1": "s2"}
        finally:
            running.send_signal(signal.SIGINT)
            output = running.communicate(timeout=120)[0]
    assert "2 machines on 2 shards" in output
    assert "saving all machines" in output
    # The last state of the machine includes all of its log.
    states = sorted((tmp_path / "data" / "states" / "machines" / "m1").iterdir())
    assert states[-1].name.endswith(f"{ends['m1']:020d}.state")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--status",), "no fleet runs here; start it"),
        (("--gateway",), "expected sources of the kinds mqtt and opcua"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    (tmp_path / "fleet.toml").write_text("")
    asked = cgsa("fleet.toml", *options, folder=tmp_path)
    answer = asked.communicate(timeout=120)[0]
    assert asked.returncode == 1
    assert message in " ".join(answer.split())


def test_configurations_in_the_documentation_are_accepted(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert examples
    for text in examples:
        (tmp_path / "fleet.toml").write_text(text)
        FleetConfig.load(tmp_path / "fleet.toml")


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("shrads = 3\n")
    with pytest.raises(ConfigError, match="did you mean 'shards'"):
        FleetConfig.load(tmp_path / "fleet.toml")
