from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.fleet.placement import TOLERANCE, place

WEIGHTS = st.dictionaries(
    st.integers(0, 60).map(lambda number: f"m{number}"), st.floats(0.001, 2.0, allow_nan=False), min_size=1
)
SHARDS = st.sets(st.integers(0, 6).map(lambda number: f"s{number}"), min_size=1)


def loads(places: dict[str, str], weights: dict[str, float], shards: set[str]) -> dict[str, float]:
    found = dict.fromkeys(shards, 0.0)
    for machine, shard in places.items():
        found[shard] += weights[machine]
    return found


@given(
    WEIGHTS, SHARDS, st.dictionaries(st.sampled_from([f"m{n}" for n in range(61)]), st.sampled_from(["s0", "s1", "s9"]))
)
def test_machines_are_spread_evenly_whatever_was_before(
    weights: dict[str, float], shards: set[str], current: dict[str, str]
) -> None:
    places = place(weights, shards, current)
    assert places.keys() == weights.keys()
    assert set(places.values()) <= shards
    assert places == place(dict(reversed(weights.items())), sorted(shards, reverse=True), current)
    found = loads(places, weights, shards)
    fullest = max(found, key=lambda shard: (found[shard], shard))
    difference = found[fullest] - min(found.values())
    smallest = min((weights[machine] for machine, shard in places.items() if shard == fullest), default=0.0)
    mean = sum(weights.values()) / len(shards)
    # Either the fullest shard is hardly above the mean, or no machine of it could go elsewhere to any use.
    assert found[fullest] <= (1 + TOLERANCE) * mean + 1e-9 or smallest >= difference - 1e-9


@given(WEIGHTS, SHARDS)
def test_a_placement_that_is_even_stays_as_it_is(weights: dict[str, float], shards: set[str]) -> None:
    places = place(weights, shards, {})
    assert place(weights, shards, places) == places


def test_only_machines_of_a_shard_that_leaves_move() -> None:
    weights = {f"m{number:03d}": 1.0 for number in range(60)}
    before = place(weights, ["s1", "s2", "s3", "s4"], {})
    after = place(weights, ["s1", "s2", "s3"], before)
    assert {name for name in weights if before[name] != after[name]} == {n for n, s in before.items() if s == "s4"}


def test_a_new_shard_takes_its_share_and_nothing_else_moves() -> None:
    weights = {f"m{number:03d}": 1.0 for number in range(60)}
    before = place(weights, ["s1", "s2"], {})
    after = place(weights, ["s1", "s2", "s3"], before)
    moved = [name for name in weights if before[name] != after[name]]
    assert {after[name] for name in moved} == {"s3"}
    assert len(moved) == 12  # the other two keep what is within the tolerance of 20 %


def test_no_shard_is_an_error() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        place({"m": 1.0}, [], {})
