"""Assigns machines to shards, and moves them when machines and shards come and go.

The table is in its folder before any shard learns of it, so the controller may die at any time: the next one continues
with the newest table. A machine that moves is first let go of by its shard, which writes all it has; if that shard does
not answer, the next owner continues from its last state, and whatever the first one still writes is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from cgsa.errors import CgsaError, ConfigError, DataError
from cgsa.fleet.assignments import Assignment, AssignmentFolder, AssignmentTable
from cgsa.fleet.placement import place
from cgsa.fleet.rollout import current_config
from cgsa.fleet.shard import ShardStatus
from cgsa.live.plant import MachineConfig

LOG = logging.getLogger(__name__)
UNKNOWN_WEIGHT = 0.02
"""Load assumed of a machine that was not measured yet."""
LEAST_WEIGHT = 1e-4
SMOOTHING = 0.2
"""Share of a new measurement in the load of a machine."""
THREADS = 64
"""How many shards are called at the same time, so that some that do not answer do not keep the others waiting."""
STATUS_SECONDS = 10.0
"""How long a shard may take to say how it is; one that takes longer counts as away until the next check."""


class ShardHandle(Protocol):
    """A shard, wherever it runs; what fails raises a :class:`~cgsa.errors.CgsaError`."""

    def assign(self, table: AssignmentTable) -> None:
        """Host the machines that a table gives to this shard, and no others."""

    def release(self, machines: tuple[str, ...]) -> None:
        """Let go of machines once what was processed is written and saved."""

    def status(self) -> ShardStatus:
        """Return the status of the shard and its machines."""

    def stop(self) -> None:
        """Save all machines and end; the shard is needed no more."""


@dataclass(frozen=True)
class ControllerConfig:
    """Settings of a controller."""

    check_seconds: float = 1.0
    """Time between two checks of all shards."""
    lost_seconds: float = 60.0
    """How long a shard may not answer until its machines go to others; a restart takes some seconds."""

    def __post_init__(self) -> None:
        if min(self.check_seconds, self.lost_seconds) <= 0:
            raise ConfigError("check_seconds and lost_seconds; expected more than 0")


class Controller:
    """Decides which shard hosts which machine; usable from any thread.

    ``start_shard`` returns the shard of a name, and starts it if it does not run. ``clock`` returns the time in
    seconds, from any beginning, and ``threads`` calls shards at the same time.
    """

    def __init__(
        self,
        folder: AssignmentFolder,
        start_shard: Callable[[str], ShardHandle],
        config: ControllerConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        threads: Executor | None = None,
    ) -> None:
        self.config = config or ControllerConfig()
        self._folder, self._start_shard, self._clock = folder, start_shard, clock
        self._table = replace(folder.newest(), version=folder.next_generation())
        self._shards: dict[str, ShardHandle] = {}
        self._statuses: dict[str, ShardStatus] = {}
        self._answered: dict[str, float] = {}
        """When shards answered last."""
        self._silent: set[str] = set()
        """Shards that did not answer at the last check."""
        self._measured: dict[str, tuple[float, float]] = {}
        """Time of the newest measurement of a machine's load, and the seconds of processing until then."""
        self._lock = threading.RLock()
        self._threads = threads or ThreadPoolExecutor(THREADS, "cgsa-controller")
        folder.save(self._table)

    @property
    def table(self) -> AssignmentTable:
        """The table as it is now."""
        return self._table

    @property
    def statuses(self) -> Mapping[str, ShardStatus]:
        """The newest status of each shard that answers."""
        return dict(self._statuses)

    def set_shards(self, names: tuple[str, ...]) -> None:
        """Have these shards and no others, and spread the machines over them."""
        with self._lock:
            self._change(replace(self._table, shards=tuple(sorted(set(names)))))

    def add(self, *machines: MachineConfig) -> None:
        """Watch machines; one that is watched already gets new settings, with which it continues."""
        with self._lock:
            known = {one.machine.name: one for one in self._table.assignments}
            present = [current_config(self._table, machine) for machine in machines]
            changed = [one for one in present if one.name not in known or known[one.name].machine != one]
            # Without a shard of its own, a machine is placed below.
            for machine in changed:
                known[machine.name] = (
                    replace(known[machine.name], machine=machine)
                    if machine.name in known
                    else Assignment(machine, "", -1)
                )
            if changed:
                self._change(replace(self._table, assignments=tuple(known.values())))

    def remove(self, machine: str) -> None:
        """Watch a machine no more; its states and its results stay."""
        with self._lock:
            self._find(machine)
            rest = tuple(one for one in self._table.assignments if machine not in {one.machine.name, one.log})
            self._change(replace(self._table, assignments=rest))

    def move(self, machine: str, shard: str) -> None:
        """Move a machine to a shard."""
        with self._lock:
            found = self._find(machine)
            if shard not in self._table.shards:
                raise DataError(f"no shard {shard!r}; there are {', '.join(self._table.shards) or 'none'}")
            rest = (one for one in self._table.assignments if one is not found)
            self._apply(replace(self._table, assignments=(*rest, replace(found, shard=shard))))

    def rebalance(self) -> None:
        """Spread the machines over the shards by their measured load."""
        with self._lock:
            self._change(self._table)

    def change(self, change: Callable[[AssignmentTable], AssignmentTable]) -> None:
        """Replace the table by what a function makes of it, and place the machines without a shard."""
        with self._lock:
            self._change(change(self._table))

    def check(self) -> None:
        """Ask all shards how they are; start those that are gone, and give machines of lost ones to others."""
        with self._lock:
            self._start_missing()
            answers = dict(zip(self._shards, self._threads.map(self._ask, self._shards.items()), strict=True))
            self._statuses = {name: status for name, status in answers.items() if status is not None}
            self._silent = answers.keys() - self._statuses.keys()
            self._answered |= dict.fromkeys(self._statuses, self._clock())
            self._measure()
            self._claim_again({name for status in self._statuses.values() for name in status.fenced})
            self._send_table([name for name, one in self._statuses.items() if one.version != self._table.version])
            lost = {name for name in self._table.shards if self._is_lost(name)}
            stranded = sorted({one.shard for one in self._table.assignments} & lost)
            if stranded and len(lost) < len(self._table.shards):
                LOG.warning("shards %s do not answer; their machines go to others", ", ".join(stranded))
                self._change(self._table)

    def close(self) -> None:
        """End the threads; shards go on."""
        self._threads.shutdown()

    def _start_missing(self) -> None:
        for name in self._table.shards:
            self._answered.setdefault(name, self._clock())
            if name not in self._shards:
                self._attempt(f"start shard {name}", partial(self._start, name))

    def _start(self, name: str) -> None:
        self._shards[name] = self._start_shard(name)

    def _ask(self, shard: tuple[str, ShardHandle]) -> ShardStatus | None:
        try:
            return shard[1].status()
        except CgsaError as error:
            LOG.info("shard %s does not answer: %s", shard[0], error)
            return None

    def _is_lost(self, name: str) -> bool:
        return name in self._silent and self._clock() - self._answered[name] > self.config.lost_seconds

    def _measure(self) -> None:
        """Note the load of all machines."""
        weights, now = dict(self._table.weights), self._clock()
        for one in (machine for status in self._statuses.values() for machine in status.machines):
            before = self._measured.get(one.machine)
            self._measured[one.machine] = now, one.seconds
            # A machine that has moved counts from 0.
            if before is not None and one.seconds >= before[1] and now > before[0]:
                load = (one.seconds - before[1]) / (now - before[0])
                known = weights.get(one.machine, load)
                weights[one.machine] = known + SMOOTHING * (load - known)
        self._table = replace(self._table, weights=weights)

    def _claim_again(self, machines: set[str]) -> None:
        """Give machines to their shards anew, which another process has claimed that nobody knows of."""
        if machines:
            anew = (
                replace(one, version=-1) if one.machine.name in machines else one for one in self._table.assignments
            )
            self._apply(replace(self._table, assignments=tuple(anew)))

    def _change(self, table: AssignmentTable) -> None:
        """Place all machines of a table on those of its shards that are not lost, and apply it."""
        names = {one.machine.name for one in table.assignments}
        weights = {name: max(table.weights.get(name, UNKNOWN_WEIGHT), LEAST_WEIGHT) for name in sorted(names)}
        # If all of them are lost, it is this process that reaches nobody.
        usable = [name for name in table.shards if not self._is_lost(name)] or table.shards
        if names and not usable:
            raise ConfigError("no shard to place machines on; expected at least one")
        current = {one.machine.name: one.shard for one in table.assignments}
        places = place(weights, usable, current) if names else {}
        placed = tuple(
            one if one.shard == places[one.machine.name] else replace(one, shard=places[one.machine.name])
            for one in table.assignments
        )
        weights = {name: weight for name, weight in table.weights.items() if name in names}
        self._apply(replace(table, assignments=placed, weights=weights))

    def _apply(self, table: AssignmentTable) -> None:
        """Have machines let go of where they leave, keep the table, and tell all shards."""
        version, before = self._table.version + 1, self._table.by_machine
        final = tuple(
            one if one == before.get(one.machine.name) else replace(one, version=version) for one in table.assignments
        )
        table = replace(table, version=version, assignments=tuple(sorted(final, key=lambda one: one.machine.name)))
        after = table.by_machine
        leaving: dict[str, list[str]] = {}
        for name, one in before.items():
            if after.get(name) != one:
                leaving.setdefault(one.shard, []).append(name)
        self._attempt_all(
            (f"have {shard} let go of {len(names)} machines", partial(self._shards[shard].release, tuple(names)))
            for shard, names in leaving.items()
            if shard in self._statuses
        )
        self._folder.save(table)
        self._table = table
        self._start_missing()
        self._send_table([name for name in self._shards if name not in self._silent])
        gone = {name: self._shards.pop(name) for name in self._shards.keys() - set(table.shards)}
        self._attempt_all((f"stop shard {name}", shard.stop) for name, shard in gone.items())
        for name in gone:
            self._statuses.pop(name, None)

    def _send_table(self, shards: Sequence[str]) -> None:
        """Send each of these shards its part of the table."""
        parts: dict[str, list[Assignment]] = {name: [] for name in shards}
        for one in self._table.assignments:
            if one.shard in parts:
                parts[one.shard].append(one)
        version = self._table.version
        self._attempt_all(
            (
                f"send shard {name} its machines",
                partial(self._shards[name].assign, AssignmentTable(version, tuple(part))),
            )
            for name, part in parts.items()
        )

    def _attempt_all(self, actions: Iterable[tuple[str, Callable[[], object]]]) -> None:
        """Try several things at the same time."""
        [*self._threads.map(lambda action: self._attempt(*action), actions)]

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        """Try something that the next check does again if it fails."""
        try:
            action()
        except CgsaError as error:
            LOG.warning("cannot %s: %s", what, error)

    def _find(self, machine: str) -> Assignment:
        found = self._table.by_machine.get(machine)
        if found is None:
            raise DataError(f"no machine {machine!r} is watched; there are {len(self._table.assignments)} others")
        return found
