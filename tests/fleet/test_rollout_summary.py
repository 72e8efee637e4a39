from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgsa.events import Diagnosis, Trust
from cgsa.fleet.rollout_summary import _common_time, summarise_rollout
from cgsa.live.store import Store, StoredDiagnosis

PLAIN = Diagnosis(0, "m", 0.0, 1.0, 10, "health", {"health": 0.9, "wear": 0.1}, None, None)


def batches(lengths: list[float], states: list[str], begin: float = 0.0) -> list[Diagnosis]:
    found = []
    for number, (length, state) in enumerate(zip(lengths, states, strict=False)):
        found.append(replace(PLAIN, batch=number, begin=begin, end=begin + length, state=state))
        begin += length
    return found


STREAMS = st.builds(
    batches,
    st.lists(st.floats(0.1, 3.0), max_size=12),
    st.lists(st.sampled_from(["health", "wear", "unknown"]), min_size=12, max_size=12),
    st.floats(0.0, 5.0),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(STREAMS, STREAMS)
def test_common_time_is_that_of_all_pairs(ours: list[Diagnosis], theirs: list[Diagnosis]) -> None:
    shared = [
        (max(0.0, min(one.end, other.end) - max(one.begin, other.begin)), one.state != other.state)
        for one in ours
        for other in theirs
    ]
    expected = sum(length for length, _ in shared), sum(length for length, differs in shared if differs)
    assert _common_time(ours, theirs) == pytest.approx(expected)


def test_a_summary_weighs_machines_and_batches_by_their_time(tmp_path: Path) -> None:
    trust = Trust(None, None, 0.8, "")
    rows = {
        "m1": batches([1.0] * 10, ["health"] * 10),
        "m1.shadow-1": [
            replace(one, alarm="wear" if one.state == "wear" else None, trust=trust)
            for one in batches([2.0] * 4, ["health", "health", "health", "wear"], begin=2.0)
        ],
        "m2": batches([1.0] * 10, ["wear"] * 10),
        "m2.shadow-1": [],
    }
    with Store(tmp_path / "store.sqlite") as store:
        for machine, found in rows.items():
            for one in found:
                store.add_diagnosis(StoredDiagnosis(machine, one))
        store.flush()
        with store.read() as snapshot:
            summary = summarise_rollout(snapshot, {"m1": "m1.shadow-1", "m2": "m2.shadow-1"})
    first, other = summary.machines
    assert (first.common_seconds, first.disagreement) == (8.0, 0.25)
    assert (first.in_charge.seconds, first.in_charge.alarm_share, first.in_charge.faulty_share) == (8.0, 0.0, 0.0)
    assert (first.shadow.seconds, first.shadow.alarm_share, first.shadow.faulty_share) == (8.0, 0.25, 0.25)
    assert first.in_charge.accuracy is None
    assert first.shadow.accuracy == pytest.approx(0.8)
    assert (other.common_seconds, other.disagreement) == (0.0, None)
    assert (summary.common_seconds, summary.disagreement) == (8.0, 0.25)
