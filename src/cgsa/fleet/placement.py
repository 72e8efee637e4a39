"""Which shard hosts which machine: deterministic, even, and with few moves when shards or machines come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush

from cgsa.errors import ConfigError

TOLERANCE = 0.2
"""How far the load of a shard may be above the mean before a machine moves; a move costs its machine a pause."""
UNITS = 10**9
"""Loads are compared as whole numbers of this part. Sums of numbers that are rounded depend on their order, so that two
shards could exchange a machine forever."""


def place(
    weights: Mapping[str, float],
    shards: Collection[str],
    current: Mapping[str, str],
    *,
    tolerance: float = TOLERANCE,
) -> dict[str, str]:
    """Return the shard of each machine.

    ``weights`` has the load of each machine, ``current`` where machines are at present. A machine stays where it is,
    unless its shard is gone or has too much to do; then the heaviest that fits moves from the fullest shard to the
    emptiest one.

    >>> place({"a": 1, "b": 1, "c": 1}, ["s1", "s2"], {"a": "s1", "b": "s1"})
    {'a': 's1', 'b': 's1', 'c': 's2'}
    >>> place({"a": 1, "b": 1, "c": 1}, ["s2", "s3"], {"a": "s1", "b": "s1", "c": "s2"})
    {'a': 's3', 'b': 's2', 'c': 's2'}
    """
    if not shards:
        raise ConfigError("no shard to place machines on; expected at least one")
    loads = _Loads(shards)
    hosted: dict[str, list[tuple[int, str]]] = {shard: [] for shard in loads.of}
    units = {machine: max(1, round(weights[machine] * UNITS)) for machine in sorted(weights)}
    homeless = []
    for machine, load in units.items():
        shard = current.get(machine)
        if shard in hosted:
            hosted[shard].append((load, machine))
            loads.of[shard] += load
        else:
            homeless.append(machine)
    loads.order()
    for machine in sorted(homeless, key=lambda name: (-units[name], name)):
        shard = loads.emptiest()
        hosted[shard].append((units[machine], machine))
        loads.add(shard, units[machine])
    for machines in hosted.values():
        machines.sort()
    _even_out(loads, hosted, tolerance)
    return dict(sorted((machine, shard) for shard, found in hosted.items() for _, machine in found))


class _Loads:
    """The loads of shards, of which the fullest and the emptiest are found without a look at all others."""

    def __init__(self, shards: Collection[str]) -> None:
        self.of = dict.fromkeys(sorted(shards), 0)
        self._names = [*self.of]
        self._ranks = {shard: rank for rank, shard in enumerate(self._names)}
        # An entry whose load is no longer that of its shard is dropped when it comes first.
        self._ascending: list[tuple[int, int]] = []
        self._descending: list[tuple[int, int]] = []

    def order(self) -> None:
        """Sort the shards by the loads they have now; later changes come from :meth:`add`."""
        self._ascending = [(load, self._ranks[shard]) for shard, load in self.of.items()]
        self._descending = [(-load, -rank) for load, rank in self._ascending]
        heapify(self._ascending)
        heapify(self._descending)

    def add(self, shard: str, load: int) -> None:
        """Change the load of a shard."""
        self.of[shard] += load
        rank = self._ranks[shard]
        heappush(self._ascending, (self.of[shard], rank))
        heappush(self._descending, (-self.of[shard], -rank))

    def emptiest(self) -> str:
        """Return the shard with the smallest load, the first of them by name."""
        while self._ascending[0][0] != self.of[self._names[self._ascending[0][1]]]:
            heappop(self._ascending)
        return self._names[self._ascending[0][1]]

    def fullest(self) -> str:
        """Return the shard with the largest load, the last of them by name."""
        while -self._descending[0][0] != self.of[self._names[-self._descending[0][1]]]:
            heappop(self._descending)
        return self._names[-self._descending[0][1]]


def _even_out(loads: _Loads, hosted: Mapping[str, list[tuple[int, str]]], tolerance: float) -> None:
    """Move machines from the fullest shard to the emptiest one while that makes the fullest less full."""
    limit = (1 + tolerance) * sum(loads.of.values()) / len(loads.of)
    while True:
        full, empty = loads.fullest(), loads.emptiest()
        difference = loads.of[full] - loads.of[empty]
        if loads.of[full] <= limit:
            return
        # What is half the difference evens out the two; what is more than all of it only exchanges them.
        below = bisect_left(hosted[full], (difference / 2, ""))
        near = [
            place
            for place in range(max(0, below - 1), min(below + 1, len(hosted[full])))
            if 0 < hosted[full][place][0] < difference
        ]
        if not near:
            return
        chosen = min(near, key=lambda place: (abs(hosted[full][place][0] - difference / 2), hosted[full][place]))
        load, machine = hosted[full].pop(chosen)
        insort(hosted[empty], (load, machine))
        loads.add(full, -load)
        loads.add(empty, load)
