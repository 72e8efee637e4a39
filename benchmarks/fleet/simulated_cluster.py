"""A fleet in simulated time: the controller and its placement are the real ones; nodes, Ray and the work are not.

Whatever decides (which shard hosts which machine, what happens to the machines of a shard that does not answer, which
table counts) is done by :class:`~cgsa.fleet.controller.Controller`, which only has another clock. The simulated part
says how long things take: arrays with an element per machine hold how much of its signal is published, processed and
saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cgsa.errors import UnavailableError
from cgsa.fleet.assignments import AssignmentFolder, AssignmentTable
from cgsa.fleet.controller import STATUS_SECONDS, THREADS, Controller, ControllerConfig
from cgsa.fleet.gateway import GatewayConfig
from cgsa.fleet.hosted_machine import HostedStatus
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.shard import ShardConfig, ShardStatus
from cgsa.live.plant import MachineConfig

T = TypeVar("T")


@dataclass(frozen=True)
class MachineCost:
    """What a kind of machine costs, in seconds of processor time."""

    learning: float
    """Per second of signal with adaptation."""
    diagnosis: float
    """Per second of signal without."""
    take_over: float
    """Once, for a state that is loaded."""


@dataclass(frozen=True)
class ClusterTimes:
    """What the simulation assumes of Ray and of the network, in seconds."""

    node_detected: float = 20.0
    """Until Ray notices that a node is gone: five health checks of 3 s that fail, and some more."""
    restart: float = 10.0
    """Until the process of a shard runs again on another node."""
    call: float = 0.005
    release: float = 0.5
    """Until a shard has written what a machine that leaves has left."""
    store: float = 0.1
    """Until a state comes from the object store."""


class OneAfterTheOther(Executor):
    """Does what it is given at once: simulated calls take no time of this computer."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function."""
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class SimulatedShard:
    """A shard, as the controller calls it."""

    def __init__(self, cluster: SimulatedCluster, name: str, number: int) -> None:
        self.name, self.number, self.node = name, number, -1
        self.up_time = math.inf
        """When its process runs; infinite while there is no node for it."""
        self.version, self.machines = 0, np.zeros(0, np.int64)
        self._cluster = cluster

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self._cluster.now >= self.up_time and self._cluster.node_up[self.node]

    def assign(self, table: AssignmentTable) -> None:
        """Host these machines and no others."""
        self._call(self._cluster.times.call)
        if table.version < self.version:
            return
        wanted = np.array([self._cluster.numbers[one.machine.name] for one in table.of_shard(self.name)], np.int64)
        self._cluster.host(self, np.setdiff1d(wanted, self.machines))
        self.version, self.machines = table.version, wanted

    def release(self, machines: tuple[str, ...]) -> None:
        """Let go of machines, with all they have written."""
        self._call(self._cluster.times.release)
        leaving = np.array([self._cluster.numbers[name] for name in machines], np.int64)
        leaving = np.intersect1d(leaving, self.machines)
        self._cluster.leave(leaving)
        self.version, self.machines = 0, np.setdiff1d(self.machines, leaving)

    def status(self) -> ShardStatus:
        """Return the status of the shard and its machines."""
        self._call(self._cluster.times.call)
        names, seconds = self._cluster.names, self._cluster.seconds
        hosted = tuple(
            HostedStatus(names[one], 1, 0, self._cluster.now, 0, 0, None, None, (), float(seconds[one]))
            for one in self.machines
        )
        return ShardStatus(self.name, self.number, self.version, hosted, (), ())

    def stop(self) -> None:
        """End; the machines were released before."""

    def restart(self, table: AssignmentTable) -> None:
        """Continue with the machines of the newest table, as a process that has just started."""
        self.version, self.machines = 0, np.zeros(0, np.int64)
        self.assign(table)

    def _call(self, seconds: float) -> None:
        if not self.is_up:
            # Before Ray knows that a node is gone, a call waits for its answer.
            known = self.node < 0 or self._cluster.now >= self._cluster.node_known[self.node]
            self._cluster.called += self._cluster.times.call if known else STATUS_SECONDS
            raise UnavailableError(f"{self.name} is away")
        self._cluster.called += seconds


class SimulatedCluster:
    """Nodes with shards, the machines on them, and the controller."""

    def __init__(
        self,
        folder: Path,
        costs: Sequence[MachineCost],
        *,
        nodes: int,
        spares: int,
        cores: int,
        config: ControllerConfig,
        times: ClusterTimes,
    ) -> None:
        count, self.times = len(costs), times
        self.now = self.called = 0.0
        self.names = [f"m{number:06d}" for number in range(count)]
        self.numbers: Mapping[str, int] = {name: number for number, name in enumerate(self.names)}
        self._learning = np.array([one.learning for one in costs])
        self._diagnosis = np.array([one.diagnosis for one in costs])
        self._take_over = np.array([one.take_over for one in costs])
        self.published, self.processed, self.saved = np.zeros(count), np.zeros(count), np.zeros(count)
        self.seconds, self.work = np.zeros(count), np.zeros(count)
        self.owner = np.full(count, -1, np.int64)
        self.ready = np.full(count, math.inf)
        self.shedding = np.zeros(count, bool)
        self.replayed = 0.0
        """Seconds of signal that were processed again."""
        self.node_up = np.ones(nodes + spares, bool)
        self.node_known = np.full(nodes + spares, math.inf)
        self._free = np.full(nodes + spares, cores)
        self.shards: dict[str, SimulatedShard] = {}
        self._gateway, self._checkpoint = GatewayConfig(), ShardConfig().checkpoint_seconds
        self._tables = AssignmentFolder(ObjectFolder.of(str(folder)))
        self.controller = Controller(
            self._tables, self._start_shard, config, clock=lambda: self.now, threads=OneAfterTheOther()
        )
        self._check_time = 0.0
        self._shard_names = tuple(f"s{number:05d}" for number in range(nodes * cores))

    def start(self) -> None:
        """Have all shards and machines."""
        self.controller.set_shards(self._shard_names)
        self.controller.add(*(MachineConfig(name, "models/press") for name in self.names))

    def fail(self, nodes: Sequence[int]) -> None:
        """Nodes die."""
        for node in nodes:
            self.node_up[node], self.node_known[node] = False, self.now + self.times.node_detected
        for shard in self.shards.values():
            if shard.node in nodes:
                lost = shard.machines
                again = self.processed[lost] - self.saved[lost]
                self.replayed += float(again.sum())
                self.work[lost] += again * self._learning[lost]
                self.processed[lost] = self.saved[lost]
                self.owner[lost] = -1

    def step(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self._restart_shards()
        self._work(seconds)
        if self.now >= self._check_time:
            self.called = 0.0
            self.controller.check()
            self._check_time = self.now + self.controller.config.check_seconds + self.called / THREADS

    @property
    def lag(self) -> NDArray[np.float64]:
        """Seconds of signal of each machine that wait."""
        return self.published - self.processed

    def host(self, shard: SimulatedShard, machines: NDArray[np.int64]) -> None:
        """Machines come to a shard, which loads their states one after the other."""
        # Those of a shard that is away were not released: the next owner has only what was saved.
        self.owner[machines] = shard.number
        self.ready[machines] = self.now + np.cumsum(self._take_over[machines] + self.times.store)

    def leave(self, machines: NDArray[np.int64]) -> None:
        """Machines leave a shard, with their states saved."""
        self.saved[machines] = self.processed[machines]
        self.owner[machines] = -1

    def _start_shard(self, name: str) -> SimulatedShard:
        shard = SimulatedShard(self, name, len(self.shards))
        self._find_node(shard, 0.0)
        self.shards[name] = shard
        return shard

    def _find_node(self, shard: SimulatedShard, seconds: float) -> None:
        """Start the process of a shard on a node with a free core, if there is one."""
        free = np.flatnonzero(self.node_up & (self._free > 0))
        if len(free):
            shard.node, shard.up_time = int(free[0]), self.now + seconds
            self._free[free[0]] -= 1

    def _restart_shards(self) -> None:
        known = ~self.node_up & (self.node_known <= self.now)
        waiting = [shard for shard in self.shards.values() if shard.node < 0 or known[shard.node] or not shard.version]
        for shard in waiting:
            if shard.node >= 0 and known[shard.node]:
                shard.node, shard.up_time = -1, math.inf
                shard.version, shard.machines = 0, np.zeros(0, np.int64)
            if shard.node < 0:
                self._find_node(shard, self.times.restart)
            elif shard.up_time <= self.now < shard.up_time + 1.0 and not shard.version:
                shard.restart(self._tables.newest())

    def _work(self, seconds: float) -> None:
        """Have each shard give its machines equal shares of one core."""
        waiting = self.lag
        self.shedding = (self.shedding | (waiting > self._gateway.shed_above)) & ~(waiting < self._gateway.shed_below)
        self.published += seconds
        lag = self.lag
        self.work += seconds * np.where(self.shedding, self._diagnosis, self._learning)
        active = (self.owner >= 0) & (self.ready <= self.now)
        given, budget = np.zeros_like(lag), np.full(len(self.shards), seconds)
        for _ in range(4):  # what one machine does not need, the others of its shard get
            needs = np.flatnonzero(active & (self.work - given > 1e-9))
            owners = self.owner[needs]
            share = budget / np.maximum(np.bincount(owners, minlength=len(budget)), 1)
            more = np.minimum(self.work[needs] - given[needs], share[owners])
            given[needs] += more
            budget -= np.bincount(owners, more, minlength=len(budget))
        self.processed += lag * given / np.maximum(self.work, 1e-12)
        self.work -= given
        self.seconds += given
        # Each machine saves its state at a time of its own.
        due = active & ((np.arange(len(lag)) + round(self.now)) % round(self._checkpoint) == 0)
        self.saved[due] = self.processed[due]
