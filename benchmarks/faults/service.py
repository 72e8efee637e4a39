"""The service under test: a process whose disk, handles and program can be made to fail from outside.

Calls that change files of machines fail with an error of choice, writes to the store fail as on a full disk, the limit
of open handles is lowered for real, and the diagnosis fails at every block that contains a certain sample.
"""

from __future__ import annotations

import builtins
import io
import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.signal_diagnoser import SignalDiagnoser
from cgsa.live.store.writer import Writer
from cgsa.live.worker import WorkerConfig
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.server import create_server
from cgsa.service.sources import create_source

CALLS = ("open", "pwrite", "fsync", "ftruncate", "mkdir", "rename", "replace", "unlink", "dup")
ODD = 12_345.0
"""A sample at which the program fails."""
EVERY_WINDOW = {"method": {"cgsa": {"tau": 1e9, "min_confidence": 0.34}}, "stream": {"batch_size": 64}}
"""Settings under which CGSA learns from most windows."""
CONFIG = WorkerConfig(checkpoint_seconds=0.5, shed_above=1e8, max_waiting=1e9, snippet_before=1.0, snippet_after=0.5)
"""Nothing is shed: what a method learns would depend on the speed of this computer."""


class Switches:
    """What fails at present."""

    def __init__(self) -> None:
        self.disk = 0
        """Number of the error of calls that concern files of machines; 0 if they work."""
        self.store = False
        self._handles = resource.getrlimit(resource.RLIMIT_NOFILE)

    def set(self, what: str, value: int) -> None:
        """Turn a fault on or off."""
        match what:
            case "disk":
                self.disk = value
            case "store":
                self.store = bool(value)
            case "handles":
                soft = self._handles[0]
                if value:
                    with suppress(OSError):  # They have run out already.
                        soft = max(map(int, os.listdir("/proc/self/fd"))) + 1  # noqa: PTH208 - only the names
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, self._handles[1]))


SWITCHES = Switches()


def break_disk(folder: Path) -> None:
    """Let calls that concern files below a folder obey the switch, for the rest of this process."""

    def concerns(place: Any) -> bool:
        if isinstance(place, int):
            try:
                place = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 - called for every write
            except OSError:
                return False
        return str(place).startswith(str(folder))

    def faulty(true: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if SWITCHES.disk and arguments and concerns(arguments[0]):
                raise OSError(SWITCHES.disk, os.strerror(SWITCHES.disk))
            return true(*arguments, **named)

        return call

    for name in CALLS:
        setattr(os, name, faulty(getattr(os, name)))
    io.open = builtins.open = faulty(io.open)


def break_store() -> None:
    """Let writes to the store obey the switch, for the rest of this process."""
    true = Writer._write

    def write(writer: Writer, group: Any) -> Any:
        if SWITCHES.store:
            raise sqlite3.OperationalError("database or disk is full")
        return true(writer, group)

    setattr(Writer, "_write", write)  # noqa: B010 - a method is replaced on purpose


@contextmanager
def broken_program() -> Iterator[None]:
    """Let the diagnosis fail at every block that contains a certain sample."""
    true = SignalDiagnoser.add

    def add(signal: SignalDiagnoser, samples: Any, **named: Any) -> Any:
        found = true(signal, samples, **named)
        if (samples == ODD).any():
            raise IndexError("a fault of the program")
        return found

    setattr(SignalDiagnoser, "add", add)  # noqa: B010 - a method is replaced on purpose
    try:
        yield
    finally:
        setattr(SignalDiagnoser, "add", true)  # noqa: B010 - as above


def machine_config(name: str, model: Path) -> MachineConfig:
    """Return the settings of a machine, the same in all runs."""
    return MachineConfig(name, model, profile="paper", settings=EVERY_WINDOW)


@dataclass(frozen=True)
class Place:
    """Where a service has its data, and where it is reached."""

    folder: Path
    model: Path
    names: tuple[str, ...]
    port: int
    broker: int | None
    """Port of an MQTT broker; None if there is none."""


def serve(place: Place, control: Connection) -> None:
    """Act as the service until the process is killed; ``control`` tells it what fails, such as ``("disk", 28)``."""
    torch.set_num_threads(1)
    break_disk(place.folder / "machines")
    break_store()
    threading.Thread(target=_obey, args=(control,), daemon=True).start()
    with broken_program():
        plant = Plant(place.folder, threads=1, config=CONFIG)
        for name in place.names:
            plant.add(machine_config(name, place.model))
        link = {"kind": "mqtt", "broker": {"host": "127.0.0.1", "port": place.broker}}
        sources = [] if place.broker is None else [create_source(plant, link)]
        app = create_app(plant, Authenticator(plant.store), sources=sources, dashboard=False)
        create_server(app, port=place.port).run()


def _obey(control: Connection) -> None:
    with suppress(EOFError):
        while True:
            SWITCHES.set(*control.recv())
