"""Workers of the toy machine for tests, and what they store."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import torch

from cgsa.events import Diagnosis, Note
from cgsa.live.alarms import AlarmConfig
from cgsa.live.checkpoint import state_loader
from cgsa.live.commands import Command
from cgsa.live.store import RowSelection, Store
from cgsa.live.watch import Watch, WatchConfig
from cgsa.live.worker import Worker, WorkerConfig
from tests.live.stream import MACHINE
from tests.machines import bundle

ALARMS = AlarmConfig(on_delay=0.2, off_delay=0.5)
NO_CHECKPOINTS = WorkerConfig(checkpoint_seconds=1e9, shed_above=60.0)


def make(
    folder: Path, store: Store, config: WorkerConfig = NO_CHECKPOINTS, method: str = "cgsa", model: str = "toy"
) -> Worker:
    settings = WatchConfig(method=method, batch_size=64, alarms=ALARMS)
    watch = Watch(MACHINE, bundle(), settings, model=model, recall=state_loader(folder / MACHINE))
    return Worker(watch, folder / MACHINE, store, config=config)


def work(worker: Worker) -> None:
    while worker.work():
        pass


def execute(worker: Worker, command: Command) -> Future[None]:
    future = worker.command(command)
    work(worker)
    return future


def diagnoses(store: Store) -> list[Diagnosis]:
    store.flush()
    with store.read() as snapshot:
        return [row.diagnosis for row in snapshot.diagnoses(MACHINE, RowSelection(limit=1000, newest_first=False)).rows]


def notes(store: Store) -> list[Note]:
    store.flush()
    with store.read() as snapshot:
        return list(snapshot.notes(MACHINE, pick=RowSelection(limit=1000, newest_first=False)).rows)


def weights(worker: Worker) -> dict[str, torch.Tensor]:
    return worker.watch.state()[0]
