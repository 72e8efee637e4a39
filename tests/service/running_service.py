"""A whole service on a loopback port, with one toy machine, for tests to talk to."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI

from cgsa.data.recording import FloatArray
from cgsa.live.alarms import AlarmConfig
from cgsa.live.commands import Command
from cgsa.live.entry_processor import ProcessedEntry
from cgsa.live.intake.block import Block
from cgsa.live.levels.config import LevelConfig
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import AuditEntry
from cgsa.live.worker import WorkerConfig
from cgsa.nn.bundle import ModelBundle
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.rights import ROLES
from cgsa.service.server import create_server
from tests.machines import RATE, bundle

MACHINE = "pump-1"
BEGIN = 1_700_000_000.0
_TLS = ssl.create_default_context()  # creating one takes longer than most requests
BINARY = {"Content-Type": "application/octet-stream"}


def block(sequence: int, *, machine: str = MACHINE, samples: int = 100) -> Block:
    """Return a block of noise; the untrained toy model diagnoses it as a fault."""
    rng = np.random.default_rng(sequence)
    noise = rng.standard_normal((2, samples)).astype(np.float32)
    return Block(machine, sequence, BEGIN + sequence * samples / RATE, RATE, ("a", "b"), noise)


@dataclass(frozen=True, eq=False)
class RunningService:
    """A running service."""

    plant: Plant
    authenticator: Authenticator
    app: FastAPI
    url: str
    tokens: dict[str, str]

    def client(self, role: str | None = "admin", **settings: Any) -> httpx.Client:
        headers = {} if role is None else {"Authorization": f"Bearer {self.tokens.get(role, role)}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, verify=_TLS, **settings)

    def feed_samples(self, samples: FloatArray, first: int = 0) -> None:
        """Send a signal in blocks of a tenth of a second."""
        size = round(RATE / 10)
        for number in range(samples.shape[1] // size):
            part = np.ascontiguousarray(samples[:, number * size : (number + 1) * size])
            time = BEGIN + (first + number) * size / RATE
            self.plant.submit(Block(MACHINE, first + number, time, RATE, ("a", "b"), part))
        self.plant.wait_until_idle()
        self.plant.store.flush()

    def feed(self, count: int, first: int = 0) -> None:
        for sequence in range(first, first + count):
            self.plant.submit(block(sequence))
        self.plant.wait_until_idle()
        self.plant.store.flush()

    def save_states(self, count: int = 1) -> list[int]:
        """Save states by commands about learning; return the numbers of all states."""
        worker = self.plant.worker(MACHINE)
        for number in range(count):
            before = len(worker.states())
            worker.command(Command("freeze" if number % 2 == 0 else "thaw", "test")).result(10)
            end = time.monotonic() + 10
            while len(worker.states()) == before:
                assert time.monotonic() < end
                time.sleep(0.005)
        return [saved.number for saved in worker.states()]

    def audit(self, **which: Any) -> tuple[AuditEntry, ...]:
        self.plant.store.flush()
        with self.plant.store.read() as snapshot:
            return snapshot.audit(**which).rows


@contextmanager
def running_service(
    folder: Path,
    *,
    model: ModelBundle | None = None,
    levels: LevelConfig | None = None,
    machine_settings: Mapping[str, object] | None = None,
    server: Mapping[str, Any] | None = None,
    listening: socket.socket | None = None,
    on_processed: Callable[[str, ProcessedEntry, int], None] | None = None,
    **settings: Any,
) -> Iterator[RunningService]:
    """Serve a plant with one machine for the duration of the context; by default it has an untrained model."""
    (model or bundle()).save(folder / "model")
    # Blocks of tests come all at once and must not be shed. States are saved only on request.
    config = WorkerConfig(checkpoint_seconds=3600.0, shed_above=60.0, snippet_before=0.3, snippet_after=0.2)
    plant = Plant(folder / "plant", threads=1, config=config, on_processed=on_processed)
    authenticator = Authenticator(plant.store)
    alarms = AlarmConfig(on_delay=0.1, reopen_within=0.0)
    profile = "paper" if model is None else None
    levels = levels or LevelConfig()
    known = machine_settings or {}
    plant.add(MachineConfig(MACHINE, folder / "model", profile=profile, settings=known, alarms=alarms, levels=levels))
    app = create_app(plant, authenticator, **{"dashboard": False, **settings})
    tokens: dict[str, str] = {role: authenticator.create_token(f"the-{role}", role) for role in ROLES}
    for role in ROLES:
        tokens[f"{role} here"] = authenticator.create_token(f"the-{role}-here", role, machines=["pump-*"])
        tokens[f"{role} elsewhere"] = authenticator.create_token(f"the-{role}-elsewhere", role, machines=["press-?"])
    with serving(app, listening, **(server or {})) as url:
        yield RunningService(plant, authenticator, app, url, tokens)


@contextmanager
def serving(app: FastAPI, listening: socket.socket | None = None, **settings: Any) -> Iterator[str]:
    """Serve an app for the duration of the context; yields its address."""
    server = create_server(app, **settings)
    with listening or socket.create_server(("127.0.0.1", 0)) as port:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [port]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                thread.join(0.01)
            yield f"{'https' if server.config.is_ssl else 'http'}://127.0.0.1:{port.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
