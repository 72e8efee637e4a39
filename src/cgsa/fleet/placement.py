"""Which shard hosts which machine: deterministic, even, and with few moves when shards or machines come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

from cgsa.errors import ConfigError

TOLERANCE = 0.2
"""How far the load of a shard may be above the mean before a machine moves; a move costs its machine a pause."""


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
    loads = dict.fromkeys(sorted(shards), 0.0)
    hosted: dict[str, list[tuple[float, str]]] = {shard: [] for shard in loads}

    def add(machine: str, shard: str) -> None:
        insort(hosted[shard], (weights[machine], machine))
        loads[shard] += weights[machine]

    for machine in sorted(weights):
        if current.get(machine) in loads:
            add(machine, current[machine])
    for machine in sorted(weights.keys(), key=lambda name: (-weights[name], name)):
        if current.get(machine) not in loads:
            add(machine, _emptiest(loads))
    _even_out(loads, hosted, tolerance)
    return dict(sorted((machine, shard) for shard, found in hosted.items() for _, machine in found))


def _even_out(loads: dict[str, float], hosted: Mapping[str, list[tuple[float, str]]], tolerance: float) -> None:
    """Move machines from the fullest shard to the emptiest one while that makes the fullest less full."""
    limit = (1 + tolerance) * sum(loads.values()) / len(loads)
    while True:
        full, empty = max(loads, key=lambda shard: (loads[shard], shard)), _emptiest(loads)
        difference = loads[full] - loads[empty]
        if loads[full] <= limit:
            return
        # What is half the difference evens out the two; what is more than all of it only exchanges them.
        below = bisect_left(hosted[full], (difference / 2, ""))
        near = [one for one in hosted[full][max(0, below - 1) : below + 1] if 0 < one[0] < difference]
        if not near:
            return
        chosen = min(near, key=lambda one: (abs(one[0] - difference / 2), one))
        hosted[full].remove(chosen)
        insort(hosted[empty], chosen)
        loads[full] -= chosen[0]
        loads[empty] += chosen[0]


def _emptiest(loads: Mapping[str, float]) -> str:
    return min(loads, key=lambda shard: (loads[shard], shard))
