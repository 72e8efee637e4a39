"""All machines that one service watches, the lanes in which the work is done, and who hears of it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from cgsa.errors import ConfigError, DataError
from cgsa.events import Event
from cgsa.live.alarms import AlarmConfig
from cgsa.live.intake.block import Block, check_machine
from cgsa.live.intake.quality import QualityConfig
from cgsa.live.store import RowRetention, Store
from cgsa.live.watch import Watch, WatchConfig
from cgsa.live.worker import Worker, WorkerConfig, recall_from
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile

LOG = logging.getLogger(__name__)

IDLE_SECONDS = 0.2
"""How long a lane without work rests at most before it looks after what time brings."""
TURN_SECONDS = 0.05
"""How long a machine may be worked on before the others of its lane have their turn."""
TRIM_SECONDS = 600.0
"""Between two looks at what the store need not keep any longer."""


@dataclass(frozen=True)
class MachineConfig:
    """One machine to be watched."""

    name: str
    bundle: str | Path
    """Folder of the model."""
    profile: str = "robust"
    method: str | None = None
    """None means the profile's."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Laid over the profile."""
    quality: QualityConfig = field(default_factory=QualityConfig)
    alarms: AlarmConfig = field(default_factory=AlarmConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        try:
            check_machine(self.name)
        except DataError as error:
            raise ConfigError(str(error)) from error


EventListener = Callable[[str, int, tuple[Event, ...]], None]
"""Told of a machine what the entry at a position of its journal led to; called in the machine's lane, so it must not
wait for anything."""


class Plant:
    """Watches machines until it is stopped; a context whose end stops it.

    Parameters
    ----------
    folder
        Where everything is kept.
    lanes
        Threads that work; none means one a core.
    config
        How workers work.
    retention
        How long the store keeps what.
    device
        Where methods work.
    vouch
        Refuses models that are not to be trusted, as :meth:`ModelBundle.load` asks for it.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        lanes: int | None = None,
        config: WorkerConfig | None = None,
        retention: RowRetention | None = None,
        device: torch.device | str = "cpu",
        vouch: Callable[[Path, bytes], None] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._vouch = vouch
        self.config, self.retention = config or WorkerConfig(), retention or RowRetention()
        self.device = torch.device(device)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.folder / "store.sqlite")
        self._workers: dict[str, Worker] = {}
        self._bundles: dict[str, ModelBundle] = {}
        self._hearers: list[EventListener] = []
        self._lanes = [_WorkerThread(number) for number in range(lanes or os.cpu_count() or 1)]
        self._trimmed = threading.Event()
        self._trimmer = threading.Thread(target=self._trim, name="cgsa-trim", daemon=True)

    @property
    def workers(self) -> Mapping[str, Worker]:
        """All machines by their names."""
        return self._workers

    def worker(self, machine: str) -> Worker:
        """Return one machine, or say which there are."""
        if machine not in self._workers:
            raise DataError(f"no machine {machine!r} is watched; there are {', '.join(self._workers) or 'none'}")
        return self._workers[machine]

    def add(self, machine: MachineConfig) -> Worker:
        """Put a machine under watch; where it was before, it goes on."""
        if machine.name in self._workers:
            raise ConfigError(f"machine {machine.name!r} is watched already; choose another name")
        bundle = self._model(Path(machine.bundle))
        profile = Profile.load(machine.profile, machine.settings)
        chosen = WatchConfig.from_profile(profile, machine.method)
        config = replace(chosen, seed=machine.seed, quality=machine.quality, alarms=machine.alarms)
        folder = self.folder / "machines" / machine.name
        watch = Watch(machine.name, bundle, config, model=bundle.sha256, recall=recall_from(folder), device=self.device)
        lane = min(self._lanes, key=lambda lane: len(lane.workers))
        worker = Worker(
            watch,
            folder,
            self.store,
            config=self.config,
            hear=lambda position, events: self._tell(machine.name, position, events),
            wake=lane.wake,
        )
        self._workers[machine.name] = worker
        lane.add(worker)
        return worker

    def hear(self, hearer: EventListener) -> Callable[[], None]:
        """Let somebody hear of everything from now on; returns what ends that."""
        self._hearers.append(hearer)
        return lambda: self._hearers.remove(hearer)

    def submit(self, block: Block) -> int:
        """Hand a block to its machine, and return its position in the journal there."""
        return self.worker(block.machine).submit(block)

    def start(self) -> None:
        """Begin to work."""
        # Two lanes that share all cores only wait for each other; and bits depend on the number of threads.
        torch.set_num_threads(1)
        for lane in self._lanes:
            lane.start()
        self._trimmer.start()

    def stop(self) -> None:
        """Finish what is being worked on, save all states and end."""
        self._trimmed.set()
        for lane in self._lanes:
            lane.stop()
        for worker in self._workers.values():
            worker.close()
        self.store.close()

    def settle(self, timeout: float = 60.0) -> None:
        """Wait until everything that was submitted so far is worked on."""
        limit = time.monotonic() + timeout
        while any(worker.waits for worker in self._workers.values()):
            if time.monotonic() > limit:
                raise DataError(f"there still is work after {timeout:g} s")
            time.sleep(0.005)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _model(self, path: Path) -> ModelBundle:
        """Return a model; machines with one model share it."""
        key = str(path.resolve())
        if key not in self._bundles:
            self._bundles[key] = ModelBundle.load(path, self.device, vouch=self._vouch)
        return self._bundles[key]

    def _tell(self, machine: str, position: int, events: tuple[Event, ...]) -> None:
        for hearer in tuple(self._hearers):
            try:
                hearer(machine, position, events)
            except Exception:
                # A lane must not die of what somebody else does with its news.
                LOG.exception("%s: a hearer of its events failed", machine)

    def _trim(self) -> None:
        while not self._trimmed.wait(TRIM_SECONDS):
            self.store.trim(time.time(), self.retention)


class _WorkerThread(threading.Thread):
    """One thread, and the machines it works on in turn."""

    def __init__(self, number: int) -> None:
        super().__init__(name=f"cgsa-lane-{number}", daemon=True)
        self.workers: list[Worker] = []
        self._work = threading.Event()
        self._ended = threading.Event()

    def add(self, worker: Worker) -> None:
        self.workers.append(worker)
        self._work.set()

    def wake(self) -> None:
        self._work.set()

    def run(self) -> None:
        while not self._ended.is_set():
            self._work.clear()
            worked = [self._turn(worker) for worker in tuple(self.workers)]
            if not any(worked):
                self._work.wait(IDLE_SECONDS)

    def stop(self) -> None:
        self._ended.set()
        self._work.set()
        if self.is_alive():
            self.join()

    def _turn(self, worker: Worker) -> bool:
        """Work on one machine for a while; return whether there was anything to do."""
        limit, worked = time.monotonic() + TURN_SECONDS, False
        try:
            while time.monotonic() < limit and not self._ended.is_set() and worker.work():
                worked = True
            worker.tick()
        except Exception as error:
            # A fault in one watch must not end those of the other machines. Its journal has everything, so that it can
            # be taken up again once what is wrong is put right.
            LOG.exception("%s: the watch stopped", worker.machine)
            worker.give_up(f"the watch stopped: {error!r}; restart the service once this is put right")
            self.workers.remove(worker)
        return worked
