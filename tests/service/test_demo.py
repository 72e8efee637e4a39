from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.scenario import Scenario
from cgsa.service.demo import DEMO_MACHINES, SCENARIO, crossfade


@given(lengths=st.lists(st.integers(20, 60), min_size=1, max_size=4), overlap=st.integers(2, 10), loops=st.booleans())
def test_recordings_crossfade_also_when_looping(lengths: list[int], overlap: int, *, loops: bool) -> None:
    parts = [np.full((2, length), float(level), np.float32) for level, length in enumerate(lengths)]
    joined = crossfade(parts, overlap, loops=loops)
    seams = len(lengths) if loops else len(lengths) - 1
    assert joined.shape == (2, sum(lengths) - overlap * seams)
    whole = np.concatenate([joined, joined[:, :1]], axis=1) if loops else joined
    # No step is a whole level: nothing clicks, not even where it begins again.
    steps = np.abs(np.diff(whole[0])).max(initial=0.0)
    assert steps <= np.pi / 2 * max(1, len(lengths) - 1) / (overlap - 1) + 1e-6
    for level, length in enumerate(lengths):
        assert np.count_nonzero(joined[0] == level) >= length - 2 * overlap


def test_demo_machines_match_the_scenario() -> None:
    plan = Scenario.load(SCENARIO)
    for machine in DEMO_MACHINES:
        assert plan.require_fault(machine.fault) == machine.fault
        assert max(*machine.first, *machine.then) < len(plan.online)
    # The first stage is healthy to its end.
    assert plan.online[0].fault_from == 1.0
