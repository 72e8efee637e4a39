"""Real counterparts on loopback: a plant that takes blocks, and a Mosquitto that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.segments import JournalRecord, read_journal
from cgsa.live.watch import COMMAND
from cgsa.live.worker import WorkerConfig
from tests.machines import RATE, bundle

BLOCK_SAMPLES = 100
BEGIN = 1_000_000.0


def block(number: int, machine: str = "m1") -> Block:
    """The block of a stream without gaps that has this count."""
    samples = np.random.default_rng(number).standard_normal((2, BLOCK_SAMPLES)).astype(np.float32)
    return Block(machine, number, BEGIN + number * BLOCK_SAMPLES / RATE, RATE, ("a", "b"), samples)


@contextmanager
def plant_of(folder: Path, *machines: str, config: WorkerConfig | None = None) -> Iterator[Plant]:
    """A plant at work, with the tiny model for every machine."""
    model = folder / "model"
    if not model.exists():
        bundle().save(model)
    with Plant(folder / "plant", threads=1, config=config) as plant:
        for machine in machines or ("m1",):
            plant.add(MachineConfig(machine, model, profile="paper"))
        yield plant


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that will soon be so."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come about"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let works that never return by themselves go on meanwhile; one that fails, fails the test."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def mosquitto() -> str:
    """Return where Mosquitto is; it is installed where that is allowed, and else the test is left out."""
    for _ in range(2):
        found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if found is not None:
            return found
        apt = shutil.which("apt-get")
        if apt is None or os.geteuid() != 0:
            break
        subprocess.run(
            [apt, "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", "mosquitto"],
            check=False,
            capture_output=True,
        )
    pytest.skip("no Mosquitto here, and none can be installed: tests against a real broker are left out")


def certificate(folder: Path, name: str, *extensions: str, key: str = "rsa:2048") -> None:
    """Make a certificate that vouches for itself, as ``.crt`` and ``.der``, and its key, as ``.key``."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl here: tests with certificates are left out")
    words = ["req", "-x509", "-newkey", key, "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    words += [word for extension in extensions for word in ("-addext", extension)]
    for more in (
        [*words, "-keyout", f"{name}.key", "-out", f"{name}.crt"],
        ["x509", "-in", f"{name}.crt", "-outform", "DER", "-out", f"{name}.der"],
    ):
        subprocess.run([program, *more], check=True, capture_output=True, cwd=folder)


class Broker:
    """One Mosquitto, with what it has to remember in a folder."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.port = free_port()
        self._program = mosquitto()
        folder.mkdir()
        self._config = folder / "mosquitto.conf"
        # As root it would become another user, who may not read here.
        about = [f"listener {self.port} 127.0.0.1", "persistence true", f"persistence_location {folder}/", "user root"]
        self._config.write_text("\n".join([*about, *(lines or ["allow_anonymous true"])]) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None
        self._process = subprocess.Popen(
            [self._program, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        limit = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < limit
                assert self._process.poll() is None
                time.sleep(0.02)
            else:
                return

    def poke(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            # One that was stopped in its tracks hears nothing else.
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(10)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)


def journaled(plant: Plant, machine: str = "m1") -> list[Block]:
    """All blocks that reached the journal of a machine."""
    records = read_journal(plant.folder / "machines" / machine / "journal")
    return [
        Block.from_bytes(entry.payload)
        for entry in records
        if isinstance(entry, JournalRecord) and entry.kind != COMMAND
    ]
