"""A shard: many machines in one process, worked on in turn by one thread.

A machine that is slow, or that cannot go on, costs the others nothing: each has a turn of limited length, reads its own
records, and only a few of those wait in memory. Every machine runs the single engine of its method; on a processor that
is the fastest way. Machines whose students are stacked on a GPU would have their turn together, in ``_work_on``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import torch

from cgsa.errors import ConfigError
from cgsa.fleet.assignments import Assignment, AssignmentTable
from cgsa.fleet.hosted_machine import HostedMachine, HostedStatus
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.machine_log import MachineLog
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.persister import Persister, PersistJob
from cgsa.fleet.results import ResultBatch, ResultStore
from cgsa.fleet.states import MachineStates
from cgsa.live.plant import MachineConfig
from cgsa.live.retries import Problem, RetriedTasks
from cgsa.live.watch import Watch
from cgsa.nn.bundle import ModelBundle

LOG = logging.getLogger(__name__)
TURN_SECONDS = 0.05
"""How long the thread works on one machine before it goes on to the next."""
IDLE_SECONDS = 0.2
"""Longest time until the thread checks what is due for machines that have no records."""
RELEASE_SECONDS = 60.0
"""How long a machine that leaves may take until its results and its state are written."""
HOST = "take over machines"


@dataclass(frozen=True)
class ShardConfig:
    """Settings of a shard."""

    checkpoint_seconds: float = 10.0
    """Minimum time between two states of a machine; a restart after a kill repeats no more work than that."""
    write_seconds: float = 0.25
    """Minimum time between two writes of results."""
    max_unwritten: int = 2000
    """Results that may wait for the store; further records are processed once some are written."""
    keep_states: int = 4
    """States kept of each machine, at least three, so that there is another one if one is damaged."""
    trim_seconds: float | None = 600.0
    """Time between two removals of records that no state of a machine needs; None keeps all records."""

    def __post_init__(self) -> None:
        if min(self.checkpoint_seconds, self.write_seconds, self.trim_seconds or 1.0) <= 0 or self.max_unwritten < 1:
            raise ConfigError("checkpoint_seconds, write_seconds, trim_seconds and max_unwritten; expected more than 0")
        if self.keep_states < 3:
            raise ConfigError(f"keep_states {self.keep_states}; expected at least 3")


@dataclass(frozen=True)
class ShardStatus:
    """Status of a shard."""

    name: str
    process: int
    """Number of its process, on the computer where it runs."""
    version: int
    """Version of the table that it acts on."""
    machines: tuple[HostedStatus, ...]
    fenced: tuple[str, ...]
    """Machines that were assigned to it and that another process has claimed since."""
    problems: tuple[Problem, ...]
    """What fails at present besides the work on single machines."""


class Shard:
    """Watches the machines that are assigned to it; a context manager that starts and stops it.

    ``states`` is the folder of all machines' states, which every shard can reach.
    """

    def __init__(
        self,
        name: str,
        log: ReplayableLog,
        results: ResultStore,
        states: ObjectFolder,
        *,
        config: ShardConfig | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.name, self.config = name, config or ShardConfig()
        self._log, self._results, self._states, self._device = log, results, states, device
        self._version = 0
        """Version of the newest table."""
        self._assigned: Mapping[str, Assignment] = {}
        """What this shard is to host."""
        self._hosted: dict[str, HostedMachine] = {}
        self._fenced: set[str] = set()
        """Machines that others own, until they are assigned anew."""
        self._bundles: dict[str, ModelBundle] = {}
        self._lock = threading.RLock()
        """Held while machines are worked on, taken over or left."""
        self._work, self._ended = threading.Event(), threading.Event()
        self._retries = RetriedTasks(None, lambda _: None)
        self._persister = Persister(results, self._fence, self._report)
        self._written_time = self._trimmed_time = time.monotonic()
        self._captured_times: dict[str, float] = {}
        self._reported: dict[str, int] = {}
        """Positions that were reported to the log."""
        self._thread = threading.Thread(target=self._run, name=f"cgsa-shard-{name}", daemon=True)

    def assign(self, table: AssignmentTable) -> None:
        """Host the machines that a table gives to this shard, and no others; an older table than before is ignored.

        Machines that leave are not waited for; see :meth:`release`.
        """
        wanted = {one.machine.name: one for one in table.of_shard(self.name)}
        with self._lock:
            if table.version < self._version:
                return
            self._version = table.version
            same = {name for name in wanted if self._assigned.get(name) == wanted[name]}
            for name in self._assigned.keys() - same:
                self._drop(name)
            self._fenced &= same
            self._assigned = wanted
        self._work.set()

    def release(self, machines: Collection[str]) -> None:
        """Let go of machines: what was processed is written and saved when this returns, so that others can go on."""
        with self._lock:
            # If no other table follows, this one has to be sent again.
            self._version = 0
            leaving = [self._hosted[name] for name in machines if name in self._hosted]
            self._assigned = {name: one for name, one in self._assigned.items() if name not in machines}
            for name in machines:
                self._hosted.pop(name, None)
            for machine in leaving:
                machine.close()
        if leaving:
            job = _job_of(leaving, leaving)
            self._persister.add(job)
            job.done.wait(RELEASE_SECONDS)

    def status(self) -> ShardStatus:
        """Return the status of the shard and its machines."""
        with self._lock:
            machines = tuple(machine.status() for machine in self._hosted.values())
            fenced = tuple(sorted(self._fenced))
        problems = (*self._retries.problems, *self._persister.problems)
        return ShardStatus(self.name, os.getpid(), self._version, machines, fenced, problems)

    def start(self) -> None:
        """Start the thread."""
        # Results depend on torch's number of threads; a shard uses one core.
        torch.set_num_threads(1)
        self._thread.start()

    def stop(self) -> None:
        """Save all machines and stop."""
        self._ended.set()
        self._work.set()
        if self._thread.is_alive():
            self._thread.join()
        self.release(tuple(self._hosted))
        self._persister.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        check_time = 0.0
        while not self._ended.is_set():
            self._work.clear()
            check_all = time.monotonic() >= check_time
            if check_all:
                check_time = time.monotonic() + IDLE_SECONDS
                self._retries.attempt(HOST, self._take_over)
            worked = [self._work_on(machine, check_all=check_all) for machine in tuple(self._hosted.values())]
            self._persist()
            if not any(worked):
                self._work.wait(max(0.0, check_time - time.monotonic()))

    def _work_on(self, machine: HostedMachine, *, check_all: bool) -> bool:
        """Work on one machine for a while; return whether there was work."""
        limit, worked = time.monotonic() + TURN_SECONDS, False
        with self._lock:
            if self._hosted.get(machine.machine) is not machine:
                return False
            while machine.has_work and machine.unwritten < self.config.max_unwritten and time.monotonic() < limit:
                if not machine.work():
                    break
                worked = True
            if check_all:
                machine.tick()
        return worked

    def _take_over(self) -> None:
        """Begin with machines that were assigned; each has an epoch of its own before its state is read."""
        with self._lock:
            new = {
                name: one
                for name, one in self._assigned.items()
                if name not in self._hosted and name not in self._fenced
            }
            watches: dict[str, Watch] = {}
            above: dict[str, int] = {}
            for name, one in new.items():
                # A model that is missing must not keep the others waiting.
                self._retries.attempt(f"prepare {name}", partial(self._prepare, one.machine, watches, above))
            if not watches:
                return
            epochs = self._results.claim({name: new[name].version for name in watches}, above)
            self._fenced |= watches.keys() - epochs.keys()
            for name, epoch in epochs.items():
                states = MachineStates(self._states.below(name), epoch, keep=self.config.keep_states)
                log = MachineLog(self._log, name)
                self._hosted[name] = HostedMachine(watches[name], log, states, self._results, self._work.set)
                self._captured_times[name] = time.monotonic()

    def _prepare(self, machine: MachineConfig, watches: dict[str, Watch], above: dict[str, int]) -> None:
        """Add a fresh watch of a machine, and the newest epoch of its states."""
        path = str(Path(machine.bundle).resolve())
        if path not in self._bundles:
            self._bundles[path] = ModelBundle.load(path, self._device)
        bundle = self._bundles[path]
        config = machine.watch_config(bundle)
        above[machine.name] = MachineStates.newest_epoch(self._states.below(machine.name))
        watches[machine.name] = Watch(machine.name, bundle, config, model=bundle.sha256, device=self._device)

    def _persist(self) -> None:
        """Hand results to the thread that writes, and states with them that are due."""
        now = time.monotonic()
        if self._persister.busy or now - self._written_time < self.config.write_seconds:
            return
        self._written_time = now
        with self._lock:
            hosted = tuple(machine for machine in self._hosted.values() if machine.restored)
            due = [machine for machine in hosted if self._is_due(machine, now)]
            self._captured_times |= {machine.machine: now for machine in due}
            job = _job_of(hosted, due)
        positions = {name: end for name, end in job.positions.items() if self._reported.get(name) != end}
        if job.batches or job.states or positions:
            self._persister.add(replace(job, positions=positions))
        if self.config.trim_seconds is not None and now - self._trimmed_time >= self.config.trim_seconds:
            self._trimmed_time = now
            for machine in hosted:
                self._retries.attempt(f"trim the log of {machine.machine}", machine.trim)

    def _is_due(self, machine: HostedMachine, now: float) -> bool:
        return machine.needs_state or now - self._captured_times[machine.machine] >= self.config.checkpoint_seconds

    def _fence(self, machines: frozenset[str]) -> None:
        """Stop working on machines that others own."""
        LOG.warning("shard %s: %s are owned by others by now", self.name, ", ".join(sorted(machines)))
        with self._lock:
            for name in machines:
                self._drop(name)
                self._fenced.add(name)

    def _drop(self, name: str) -> None:
        machine = self._hosted.pop(name, None)
        if machine is not None:
            machine.close()

    def _report(self, positions: Mapping[str, int]) -> None:
        if positions:
            # All of them, since the log keeps the newest report alone.
            self._reported |= positions
            self._log.report(self.name, self._reported)


def _job_of(machines: Collection[HostedMachine], due: Collection[HostedMachine]) -> PersistJob:
    """Return what machines have to write, with the states of those that are due."""
    # The states first: they include no record whose results are not among those taken after them.
    states = [(machine, state) for machine in due if (state := machine.capture()) is not None]
    batches = [batch for machine in machines if _is_needed(batch := machine.take_results()) or machine in due]
    return PersistJob(batches, states, {machine.machine: machine.position for machine in machines})


def _is_needed(batch: ResultBatch) -> bool:
    return bool(batch.results) or batch.status is not None
