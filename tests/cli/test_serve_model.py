"""A model is served for a machine: configuration, tokens and sender are written, and the sender is used unchanged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from cgsa.errors import ConfigError
from cgsa.service.sender.program import sender_token
from tests.cli.running import run_cgsa
from tests.cli.test_serve import _answers, free_port, wait_for
from tests.data.made_machine import write_machine
from tests.machines import ToyLibrary, ensemble_bundle


@contextmanager
def served(place: Path, port: int) -> Iterator[tuple[str, str]]:
    """Serve the model in a folder; yield its address and what it printed."""
    words = ["serve", "model", "--machine", "press-1", "--port", str(port)]
    with (place / "log").open("w") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "cgsa", *words]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=place, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: _answers(f"{url}/ready"), process)  # type: ignore[arg-type]
            yield url, (place / "log").read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def send(place: Path, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the sender without anything but Python's own library."""
    command = [sys.executable, "-I", "-S", "send-press-1.py", *words]
    return subprocess.run(command, cwd=place, input=text, capture_output=True, text=True, timeout=60, check=False)


def write_files(place: Path) -> None:
    """Write a recording as CSV, as NPY, and as CSV in a wrong unit."""
    signal_ = ToyLibrary().get("health", "low", severity="H", specimen=1).signal[:, :3000]
    lines = [f"{number / 1000:.3f};{b:.5f};{a:.5f}".replace(".", ",") for number, (a, b) in enumerate(signal_.T)]
    (place / "healthy.csv").write_text("\n".join(["Zeit;b;a", "s;g;g", *lines]) + "\n")
    (place / "wrong.csv").write_text("\n".join(["Zeit;b;a", "s;g;mm/s", *lines]) + "\n")
    np.save(place / "healthy.npy", signal_.T)


def test_a_served_model_gets_its_samples_from_the_sender(tmp_path: Path) -> None:
    ensemble_bundle().save(tmp_path / "model")
    write_files(tmp_path)
    port = free_port()
    with served(tmp_path, port) as (url, log):
        link = (tmp_path / "plant" / "login-link").read_text().strip()
        admin = {"Authorization": f"Bearer {link.partition('#')[2]}"}
        token = sender_token(tmp_path / "send-press-1.py")
        assert token.partition(".")[0] == "cgsa"
        assert token not in log
        assert link.startswith(f"{url}/login#cgsa.first-admin.")
        done = send(tmp_path, "healthy.csv", "healthy.npy", "--speed", "0", "--condition", "torque=5")
        assert (done.returncode, done.stderr) == (0, "6000 samples of press-1 sent, 6.0 s\n")
        lines = (tmp_path / "healthy.csv").read_text()
        assert send(tmp_path, "-", "--speed", "0", text=lines).returncode == 0
        refused = send(tmp_path, "wrong.csv", "--speed", "0")
        assert refused.returncode == 1
        assert "refused (422): block of press-1, sequence 0: channel 'a' in mm/s; expected g" in refused.stderr
        assert "no such file" in send(tmp_path, "missing.csv").stderr
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/api/machines/press-1", headers=headers).status_code == 403, (
            "it sends, and reads nothing"
        )
        counts = httpx.get(f"{url}/api/machines/press-1", headers=admin).json()["counts"]
        assert (counts["blocks"], counts["refused_blocks"]) == (19, 1)
        curl = re.findall(r"-d '(.*)' http", log)[0]
        settings = {**headers, "Content-Type": "application/json"}
        # The time of the example has passed meanwhile; everything else of it is right.
        assert httpx.post(f"{url}/api/blocks", content=curl, headers=settings).status_code == 409
    with served(tmp_path, port) as (_, log):
        assert "plant.toml: exists; it already watches press-1 with model" in log
        assert "login-link" not in log
        assert send(tmp_path, "healthy.npy", "--speed", "0").returncode == 0


def test_the_sender_waits_for_a_service_that_is_away(tmp_path: Path) -> None:
    ensemble_bundle().save(tmp_path / "model")
    write_files(tmp_path)
    port = free_port()
    with served(tmp_path, port):
        pass
    command = [sys.executable, "send-press-1.py", "healthy.npy", "--speed", "0"]
    waiting = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    assert "no answer from" in waiting.stderr.readline()
    with served(tmp_path, port):
        _, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, errors.splitlines()[-1]) == (0, "3000 samples of press-1 sent, 3.0 s")


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    write_machine(tmp_path / "machine")
    ensemble_bundle().save(tmp_path / "model")
    with pytest.raises(ConfigError, match="it is a data set: cgsa train"):
        run_cgsa("serve", tmp_path / "machine", "--machine", "press-1")
    with pytest.raises(ConfigError, match="which machine"):
        run_cgsa("serve", tmp_path / "model")
    (tmp_path / "other.toml").touch()
    with pytest.raises(ConfigError, match="goes with a model"):
        run_cgsa("serve", tmp_path / "other.toml", "--machine", "press-1")
    with pytest.raises(ConfigError, match="machine 'press 1'"):
        run_cgsa("serve", tmp_path / "model", "--machine", "press 1", "--folder", tmp_path)
    assert not (tmp_path / "plant.toml").exists()
