from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cgsa.live.intake.block import Block
from cgsa.live.recent_signal import RecentSignal

RATE = 100.0


def block(number: int, count: int = 50, begin: float = 1000.0) -> Block:
    samples = np.full((2, count), number, np.float32)
    return Block("m", number, begin + number * count / RATE, RATE, ("a", "b"), samples, {"speed": float(number)})


@given(st.integers(1, 60), st.integers(1, 400))
def test_it_holds_the_newest_seconds_in_whole_blocks(count: int, samples: int) -> None:
    recent = RecentSignal(seconds=3.0)
    for number in range(count):
        recent.add(block(number, samples))
    found = recent.recording({"a": "g"})
    assert found is not None
    time, recording = found
    assert recording.units == ("g", "")
    held = recording.samples // samples
    # As few blocks as last for three seconds, or all.
    assert held == min(count, -(-round(3 * RATE) // samples))
    assert time == block(count - held, samples).time
    assert np.array_equal(recording.signal[0], np.repeat(np.arange(count - held, count), samples).astype(np.float32))
    assert np.array_equal(recording.conditions["speed"], recording.signal[0])


def test_a_gap_or_another_rate_begins_a_new_signal() -> None:
    for odd in (block(7), replace(block(2), sample_rate=200.0), replace(block(2), channels=("x", "b"))):
        recent = RecentSignal()
        recent.add(block(0))
        recent.add(block(1))
        recent.add(odd)
        found = recent.recording({})
        assert found is not None
        assert (found[0], found[1].samples) == (odd.time, 50)


def test_missing_samples_count_as_zero_and_before_the_first_block_there_is_nothing() -> None:
    recent = RecentSignal()
    assert recent.recording({}) is None
    recent.add(replace(block(0), samples=np.full((2, 50), np.nan, np.float32)))
    found = recent.recording({})
    assert found is not None
    assert not found[1].signal.any()
