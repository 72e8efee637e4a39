from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.data.windows import WindowSpec
from cgsa.errors import BundleError
from cgsa.live.intake.windower import WindowBatch, Windower

RATE = 100.0


def signal(samples: int) -> np.ndarray:
    return np.arange(2 * samples, dtype=np.float32).reshape(2, samples)


def windows(batches: list[WindowBatch], spec: WindowSpec) -> list[tuple[float, list[float]]]:
    """Return start time and first channel of every window."""
    return [
        (round(each.time + number * spec.step / RATE, 9), each.samples[0, begin : begin + spec.length].tolist())
        for each in batches
        for number in range(each.windows)
        for begin in [number * spec.step]
    ]


@settings(max_examples=60, deadline=None)
@given(
    spec=st.builds(WindowSpec, length=st.integers(2, 12), step=st.integers(1, 20)),
    batch=st.integers(1, 5),
    sizes=st.lists(st.integers(0, 40), max_size=12),
    gap_at=st.integers(0, 12),
)
def test_no_window_is_lost_or_crosses_a_gap(spec: WindowSpec, batch: int, sizes: list[int], gap_at: int) -> None:
    """Literal twin: all windows of each interval between gaps."""
    total = signal(sum(sizes))
    windower = Windower(spec, batch, 2, RATE)
    found, begin = windower.restart(10.0), 0
    intervals: list[tuple[float, np.ndarray]] = [(10.0, total[:, :0])]
    for number, size in enumerate(sizes):
        if number == gap_at:
            found += windower.restart(50.0)
            intervals.append((50.0, total[:, :0]))
        piece = total[:, begin : begin + size]
        found += windower.add(piece)
        begin += size
        time, before = intervals[-1]
        intervals[-1] = (time, np.concatenate([before, piece], axis=1))
        assert windower.now == pytest.approx(time + intervals[-1][1].shape[1] / RATE)
    found += windower.restart(99.0)
    expected = [
        (round(time + start / RATE, 9), samples[0, start : start + spec.length].tolist())
        for time, samples in intervals
        for start in range(0, samples.shape[1] - spec.length + 1, spec.step)
    ]
    assert windows(found, spec) == expected
    assert all(1 <= each.windows <= batch for each in found)
    for each in found:
        assert each.samples.shape[1] == (each.windows - 1) * spec.step + spec.length


@given(cut_at=st.integers(0, 20), step=st.sampled_from([3, 9]))
def test_windower_resumes_from_its_state(cut_at: int, step: int) -> None:
    spec = WindowSpec(5, step)
    pieces = np.split(signal(140), 20, axis=1)
    whole, part = Windower(spec, 3, 2, RATE), Windower(spec, 3, 2, RATE)
    for piece in pieces[:cut_at]:
        whole.add(piece)
        part.add(piece)
    resumed = Windower(spec, 3, 2, RATE)
    resumed.load_state_dict(part.state_dict())
    for piece in pieces[cut_at:]:
        assert windows(whole.add(piece), spec) == windows(resumed.add(piece), spec)
    assert whole.now == resumed.now


@given(
    spec=st.builds(WindowSpec, length=st.integers(2, 9), step=st.integers(1, 12)),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    values=st.lists(st.none() | st.floats(0, 100), min_size=8, max_size=8),
    cut_at=st.integers(0, 8),
)
def test_conditions_are_means_over_windows_whatever_the_blocks(
    spec: WindowSpec, sizes: list[int], values: list[float | None], cut_at: int
) -> None:
    """Literal twin: the mean over the samples of each window, unknown if one of them is; it survives a restart."""
    windower, trace, found = Windower(spec, 2, 2, RATE, conditions=1), np.empty(0, np.float32), []
    for number, (size, value) in enumerate(zip(sizes, values, strict=False)):
        if number == cut_at:
            state = windower.state_dict()
            windower = Windower(spec, 2, 2, RATE, conditions=1)
            windower.load_state_dict(state)
        piece = np.full((1, size), np.nan if value is None else value, np.float32)
        trace = np.concatenate([trace, piece[0]])
        found += windower.add(np.zeros((2, size), np.float32), None if value is None else piece)
    found += windower.restart(0.0)
    starts = range(0, len(trace) - spec.length + 1, spec.step)
    expected = [float(np.mean(trace[start : start + spec.length], dtype=np.float64)) for start in starts]
    means = [
        np.full(one.windows, np.nan) if one.conditions is None else one.conditions[:, 0].astype(float) for one in found
    ]
    np.testing.assert_allclose(np.concatenate([*means, []]), expected, rtol=1e-6)


def test_a_state_without_known_conditions_is_that_of_older_versions() -> None:
    windower = Windower(WindowSpec(5, 3), 3, 2, RATE, conditions=1)
    windower.add(signal(4))
    assert set(windower.state_dict()) == {"held", "begun", "cut"}
    windower.add(signal(1), np.ones((1, 1), np.float32))
    state = windower.state_dict()
    with pytest.raises(BundleError, match=r"buffered conditions of shape \(1, 5\); expected \(2, 5\)"):
        Windower(WindowSpec(5, 3), 3, 2, RATE, conditions=2).load_state_dict(state)


def test_a_state_of_other_channels_is_refused() -> None:
    state = Windower(WindowSpec(5, 3), 3, 2, RATE).state_dict()
    with pytest.raises(BundleError, match="expected \\(3, samples\\)"):
        Windower(WindowSpec(5, 3), 3, 3, RATE).load_state_dict(state)
    assert state["held"].dtype == torch.float32
