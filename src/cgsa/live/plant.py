"""All machines that one service watches, the threads that do the work, and the listeners to their events."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias

import torch

from cgsa.errors import ConfigError, DataError
from cgsa.events import Event
from cgsa.live.alarms import AlarmConfig
from cgsa.live.checkpoint import state_loader
from cgsa.live.commands import SERVICE, Command
from cgsa.live.entry_processor import ProcessedEntry
from cgsa.live.intake.block import Block, check_machine
from cgsa.live.intake.quality import QualityConfig
from cgsa.live.intake.refusals import Refusal
from cgsa.live.intermittent import IntermittentConfig
from cgsa.live.levels.config import LevelConfig
from cgsa.live.retries import Problem
from cgsa.live.signal_process import RemoteSignal, SignalProcess
from cgsa.live.standstill import StandstillConfig
from cgsa.live.store import LedgerBudget, PostgresAddress, RowRetention, Store
from cgsa.live.store.opening import STORE_FILE
from cgsa.live.store.sqlite_database import lock_store
from cgsa.live.store_maintenance import StoreMaintenance
from cgsa.live.watch import Watch, WatchConfig
from cgsa.live.worker import Worker, WorkerConfig
from cgsa.live.worker_thread import WorkerThread
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import profile_for

LOG = logging.getLogger(__name__)

RETIRE_SECONDS = 60.0
"""How long a worker may take to diagnose what waits before its machine is exchanged or removed."""


@dataclass(frozen=True)
class ExplainConfig:
    """What is known of a machine, so that its alarms can be explained by named lines; the watch does not use it."""

    kinematics: str | None = None
    """File with the section ``[kinematics]``, or the name of one that comes with cgsa."""
    healthy: tuple[str, ...] = ()
    """Recordings of the healthy machine to compare with, or a data set that has some."""
    speed: float | None = None
    """Speed of the first shaft in rpm, if it is constant."""

    def __post_init__(self) -> None:
        if self.speed is not None and self.speed <= 0:
            raise ConfigError(f"explain.speed {self.speed:g}; expected a positive number of rpm")


@dataclass(frozen=True)
class MachineConfig:
    """A machine to watch."""

    name: str
    bundle: str | Path
    """Folder of the model."""
    profile: str | None = None
    """None selects the profile that the model was trained under."""
    method: str | None = None
    """None selects the method of the profile."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings that differ from the profile."""
    quality: QualityConfig = field(default_factory=QualityConfig)
    alarms: AlarmConfig = field(default_factory=AlarmConfig)
    levels: LevelConfig = field(default_factory=LevelConfig)
    explain: ExplainConfig = field(default_factory=ExplainConfig)
    standstill: StandstillConfig = field(default_factory=StandstillConfig)
    intermittent: IntermittentConfig | None = None
    """None means that the machine is measured all the time."""
    seed: int = 0

    def __post_init__(self) -> None:
        try:
            check_machine(self.name)
        except DataError as error:
            raise ConfigError(str(error)) from error

    def watch_config(self, bundle: ModelBundle) -> WatchConfig:
        """Return how the machine is watched with its model."""
        chosen = WatchConfig.from_profile(profile_for(bundle, self.profile, self.settings), self.method)
        return replace(
            chosen,
            seed=self.seed,
            quality=self.quality,
            alarms=self.alarms,
            levels=self.levels,
            standstill=self.standstill,
            intermittent=self.intermittent,
        )


EntryListener: TypeAlias = Callable[[str, int, tuple[Event, ...]], None]
"""Receives the machine, a position in its journal and the events that the entry there caused; called in the thread of
the machine, so it must not block."""


class Plant:
    """Watches machines until it is stopped; a context manager that starts and stops it.

    ``folder`` holds all data, ``threads`` is the number of worker threads (None means one per core), and ``verify``
    refuses models that are not to be trusted; see :meth:`ModelBundle.load`. With ``processes``, each thread has a
    process of its own that computes the diagnoses of its machines. ``on_processed`` receives the machine of
    each entry that was processed, the entry, and when its processing began, in nanoseconds since 1970. ``store`` is
    the address of the store, if that is not in the folder.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        threads: int | None = None,
        config: WorkerConfig | None = None,
        retention: RowRetention | None = None,
        ledger: LedgerBudget | None = None,
        device: torch.device | str = "cpu",
        verify: Callable[[Path, bytes], None] | None = None,
        on_processed: Callable[[str, ProcessedEntry, int], None] | None = None,
        store: PostgresAddress | None = None,
        processes: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._verify, self._on_processed = verify, on_processed
        self.config = config or WorkerConfig()
        self.device = torch.device(device)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock, self.store = self._open_store(store)
        self.store.on_repair = self._note_repair
        self._workers: dict[str, Worker] = {}
        self._explain: dict[str, ExplainConfig] = {}
        self._bundles: dict[str, ModelBundle] = {}
        self._listeners: list[EntryListener] = []
        if processes and self.device.type != "cpu":
            raise ConfigError(f"processes on {self.device}; expected cpu, since one process computes for a whole GPU")
        self._threads = [
            WorkerThread(number, SignalProcess(number) if processes else None)
            for number in range(threads or os.cpu_count() or 1)
        ]
        self.maintenance = StoreMaintenance(self.store, retention, ledger)

    @property
    def workers(self) -> Mapping[str, Worker]:
        """The workers by the names of their machines."""
        return self._workers

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What fails at present besides the work on single machines, and is tried again."""
        return self.maintenance.problems

    def worker(self, machine: str) -> Worker:
        """Return the worker of a machine, or say which machines there are."""
        if machine not in self._workers:
            raise DataError(f"no machine {machine!r} is watched; there are {', '.join(self._workers) or 'none'}")
        return self._workers[machine]

    def explain_config(self, machine: str) -> ExplainConfig:
        """Return what is known of a machine, so that its alarms can be explained."""
        return self._explain.get(machine, ExplainConfig())

    def add(self, machine: MachineConfig, watch: Watch | None = None) -> Worker:
        """Start to watch a machine; if it was watched before, it resumes.

        ``watch`` is what :meth:`prepare` returned; None prepares it now.
        """
        if machine.name in self._workers:
            raise ConfigError(f"machine {machine.name!r} is watched already; choose another name")
        worker = self._start(watch or self.prepare(machine))
        self._explain[machine.name] = machine.explain
        for message in self.store.repairs:
            worker.remarks.append(message)
        return worker

    def prepare(self, machine: MachineConfig) -> Watch:
        """Return a fresh watch of a machine, or say why there can be none; nothing is changed."""
        bundle = self._model(Path(machine.bundle))
        process = self._threads[self._next_thread()].process
        return Watch(
            machine.name,
            bundle,
            machine.watch_config(bundle),
            model=bundle.sha256,
            recall=state_loader(self._folder_of(machine.name)),
            device=self.device,
            create_signal=None if process is None else process.create,
        )

    def exchange(self, machine: MachineConfig, watch: Watch) -> Worker:
        """Watch a machine in another way, which :meth:`prepare` returned, once all blocks so far are diagnosed.

        Meanwhile its blocks are refused as those of a machine that cannot take any at present, so their senders send
        them again.
        """
        known = self.worker(machine.name).watch
        same = known.bundle.sha256 == watch.bundle.sha256 and known.signal.identity == watch.signal.identity
        former = self._retire(machine.name, "its settings are exchanged; try again in a moment", completes=not same)
        try:
            worker = self._start(watch)
        except BaseException:
            self._start(former.watch.fresh())
            raise
        self._explain[machine.name] = machine.explain
        return worker

    def remove(self, machine: str) -> None:
        """Stop to watch a machine, once all its blocks so far are diagnosed; its folder and its history stay."""
        self._retire(machine, "it is taken out of service", completes=True)
        self._workers = {name: worker for name, worker in self._workers.items() if name != machine}

    def forget_models(self) -> None:
        """Load models anew for machines from now on: their files may have changed."""
        self._bundles.clear()

    def subscribe(self, listener: EntryListener) -> Callable[[], None]:
        """Call a listener with all events from now on; return a function that ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def submit(self, block: Block) -> int:
        """Hand a block to its machine and return its position in the journal."""
        return self.worker(block.machine).submit(block)

    @property
    def machines(self) -> Collection[str]:
        """Names of the machines that are watched."""
        return self._workers.keys()

    def command(self, machine: str, command: Command) -> Future[None]:
        """Hand a command to a machine."""
        return self.worker(machine).command(command)

    def last_refused(self, machine: str) -> Refusal | None:
        """Return the newest data of a machine that were refused or are missing."""
        return self.worker(machine).watch.last_refused

    def start(self) -> None:
        """Start all threads."""
        # Worker threads that share all cores only wait for each other; and results depend on torch's thread count.
        torch.set_num_threads(1)
        for thread in self._threads:
            thread.start()
        self.maintenance.start()

    def stop(self) -> None:
        """Finish the current entries, save all states and stop."""
        self.maintenance.stop()
        for thread in self._threads:
            thread.stop()
        for worker in self._workers.values():
            worker.close()
        for thread in self._threads:
            if thread.process is not None:
                thread.process.stop()
        self.store.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def wait_until_idle(self, timeout: float = 60.0) -> None:
        """Wait until everything submitted so far is processed."""
        limit = time.monotonic() + timeout
        while any(worker.has_work for worker in self._workers.values()):
            if time.monotonic() > limit:
                raise DataError(f"work is still pending after {timeout:g} s")
            time.sleep(0.005)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open_store(self, address: PostgresAddress | None) -> tuple[int | None, Store]:
        """Return the store, and the lock on the folder if the store has none."""
        file = self.folder / STORE_FILE
        if address is None:
            return None, Store(file)
        if file.exists():
            raise DataError(
                f"{file}: this folder has a store of its own, whose history {address} would lack; take another folder, "
                "or move the file away to begin without it"
            )
        lock = lock_store(file)
        try:
            return lock, Store(address)
        except BaseException:
            os.close(lock)
            raise

    def _folder_of(self, machine: str) -> Path:
        return self.folder / "machines" / machine

    def _start(self, watch: Watch) -> Worker:
        """Start a worker, in the place of one that is retired."""
        thread = self._threads[self._next_thread(watch)]
        worker = Worker(
            watch,
            self._folder_of(watch.machine),
            self.store,
            config=self.config,
            on_events=partial(self._publish, watch.machine),
            on_processed=None if self._on_processed is None else partial(self._pass_on, watch.machine),
            wake=thread.wake,
        )
        # A new dictionary, since other threads go through the one before.
        self._workers = {**self._workers, watch.machine: worker}
        thread.add(worker)
        return worker

    def _next_thread(self, watch: Watch | None = None) -> int:
        """Return the number of the thread for a machine: that of the process that computes for it, or the idlest."""
        if watch is not None and isinstance(watch.signal, RemoteSignal):
            return watch.signal.process.number
        return min(range(len(self._threads)), key=lambda number: self._threads[number].machines)

    def _retire(self, machine: str, why: str, *, completes: bool) -> Worker:
        """Let a worker finish what waits, and end it; it stays known, and refuses blocks.

        ``completes`` has the windows diagnosed that wait for the rest of their batch, which no state can hand over.
        """
        worker = self.worker(machine)
        worker.refuse_blocks(why)
        self._wait_for(worker)
        if completes and not worker.stopped:
            worker.command(Command("end_recording", SERVICE))
            self._wait_for(worker)
        for thread in self._threads:
            thread.remove(worker)
        worker.close()
        return worker

    def _wait_for(self, worker: Worker) -> None:
        """Wait until a worker that takes no blocks has diagnosed all it has."""
        limit = time.monotonic() + RETIRE_SECONDS
        while worker.has_work and not worker.stopped and any(thread.is_alive() for thread in self._threads):
            if time.monotonic() > limit:
                worker.refuse_blocks(None)
                why = f"its blocks are not diagnosed after {RETIRE_SECONDS:g} s; it stays as it is"
                raise DataError(f"{worker.machine}: {why}")
            time.sleep(0.01)

    def _model(self, path: Path) -> ModelBundle:
        """Return a model; machines with the same model share it."""
        key = str(path.resolve())
        if key not in self._bundles:
            self._bundles[key] = ModelBundle.load(path, self.device, verify=self._verify)
        return self._bundles[key]

    def _publish(self, machine: str, position: int, events: tuple[Event, ...]) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(machine, position, events)
            except Exception:
                # A fault in a listener must not end the thread.
                LOG.exception("%s: a listener to its events failed", machine, extra={"machine": machine})

    def _pass_on(self, machine: str, done: ProcessedEntry, begun: int) -> None:
        if self._on_processed is None:
            return
        try:
            self._on_processed(machine, done, begun)
        except Exception:
            LOG.exception("%s: what follows its entries failed", machine, extra={"machine": machine})

    def _note_repair(self, message: str) -> None:
        """Write what was lost into the notes of all machines."""
        for worker in self._workers.values():
            worker.remarks.append(message)
