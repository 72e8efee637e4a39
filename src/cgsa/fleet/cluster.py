"""A fleet on a Ray cluster, for the program that starts it and for those that ask or change it later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import ray

from cgsa.errors import ConfigError
from cgsa.fleet.assignments import AssignmentTable
from cgsa.fleet.config import FleetConfig
from cgsa.fleet.ray_actors import (
    CALL_SECONDS,
    CONTROLLER,
    RELEASE_SECONDS,
    RESULTS,
    SHARD,
    ControllerActor,
    RemoteShard,
    ResultsActor,
    ShardActor,
    call,
    start_actor,
)
from cgsa.fleet.shard import ShardStatus
from cgsa.live.plant import MachineConfig
from cgsa.live.store.database import Outcome
from cgsa.live.store.mapping import Statement

START_SECONDS = 300.0
"""How long a process of the fleet may take to start, which imports PyTorch on a computer that may be busy."""


class Fleet:
    """A fleet that runs on a Ray cluster; a context manager that connects and disconnects, which ends nothing.

    ``address`` is that of the cluster, if the settings have none.
    """

    def __init__(self, config: FleetConfig, address: str | None = None) -> None:
        self.config = config
        self._address = address or config.ray.address
        if self._address is None:
            raise ConfigError("the address of the Ray cluster is missing; expected one such as 127.0.0.1:6379")
        self._connected_here = self._has_written = False

    def __enter__(self) -> Self:
        settings, self._connected_here = self.config.ray, not ray.is_initialized()
        if self._connected_here:
            ray.init(address=self._address, namespace=settings.namespace, log_to_driver=False, configure_logging=False)
        self._controller = start_actor(ControllerActor, CONTROLLER, self.config, self.config)
        try:
            call(self._controller.table.remote(), START_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._connected_here:
            ray.shutdown()

    def start(self) -> None:
        """Have the shards and the machines of the settings, besides those that were added since."""
        if not self.table().shards:
            self.set_shards(tuple(f"s{number}" for number in range(1, self.config.shards + 1)))
        self.add(*self.config.machines)

    def stop(self) -> None:
        """Save all machines and end all processes of the fleet; it continues from there when it is started again."""
        shards = self.table().shards
        ray.kill(self._controller)
        for name in shards:
            RemoteShard(start_actor(ShardActor, f"{SHARD} {name}", self.config, name, self.config)).stop()

    def set_shards(self, names: tuple[str, ...]) -> None:
        """Have these shards and no others, and spread the machines over them."""
        call(self._controller.set_shards.remote(names), RELEASE_SECONDS)

    def add(self, *machines: MachineConfig) -> None:
        """Watch machines."""
        call(self._controller.add.remote(machines), RELEASE_SECONDS)

    def remove(self, machine: str) -> None:
        """Watch a machine no more; its states and its results stay."""
        call(self._controller.remove.remote(machine), RELEASE_SECONDS)

    def move(self, machine: str, shard: str) -> None:
        """Move a machine to a shard."""
        call(self._controller.move.remote(machine, shard), RELEASE_SECONDS)

    def rebalance(self) -> None:
        """Spread the machines over the shards by their measured load."""
        call(self._controller.rebalance.remote(), RELEASE_SECONDS)

    def write_each(self, jobs: Sequence[Sequence[Statement]]) -> list[Outcome]:
        """Have the process that has the file of the store open write jobs, each of them together or not at all."""
        writing = start_actor(ResultsActor, RESULTS, self.config, self.config).write_each.remote(jobs)
        outcomes: list[Outcome] = call(writing, CALL_SECONDS if self._has_written else START_SECONDS)
        self._has_written = True
        return outcomes

    def table(self) -> AssignmentTable:
        """Return which shard hosts which machine."""
        found: AssignmentTable = call(self._controller.table.remote())
        return found

    def statuses(self) -> Mapping[str, ShardStatus]:
        """Return the newest status of each shard that answers."""
        found: Mapping[str, ShardStatus] = call(self._controller.statuses.remote())
        return found
