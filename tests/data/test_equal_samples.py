from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.equal_samples import (
    EqualSampleCounts,
    usual_equal_samples,
    window_extremes,
    windows_touching_run,
    windows_with_run,
)
from cgsa.data.recording import FloatArray
from cgsa.data.windows import WindowSpec


def coarse(channels: int, samples: int, levels: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return (np.round(rng.normal(size=(channels, samples)) * levels) / levels).astype(np.float32)


@given(
    seed=st.integers(0, 1000),
    samples=st.integers(40, 120),
    levels=st.sampled_from([1, 4, 100]),
    spec=st.builds(WindowSpec, st.integers(2, 40), st.integers(1, 45)),
)
def test_extremes_and_runs_equal_those_of_the_literal_twin(
    seed: int, samples: int, levels: int, spec: WindowSpec
) -> None:
    signal = coarse(2, samples, levels, seed)
    tops, counts = window_extremes(signal, spec, np.maximum)
    for channel, row in enumerate(signal):
        for number in range(spec.count(samples)):
            window = row[number * spec.step : number * spec.step + spec.length].tolist()
            longest = max(len(list(run)) for _, run in groupby(window))
            assert tops[channel, number] == max(window)
            assert counts[channel, number] == window.count(max(window))
            for run in range(2, 9):
                assert windows_with_run(signal, spec, run)[channel, number] == (longest >= run)


@given(
    seed=st.integers(0, 1000),
    samples=st.integers(2, 120),
    levels=st.sampled_from([1, 2]),
    spec=st.builds(WindowSpec, st.integers(2, 40), st.integers(1, 45)),
    run=st.integers(2, 9),
)
def test_windows_touching_runs_equal_those_of_the_literal_twin(
    seed: int, samples: int, levels: int, spec: WindowSpec, run: int
) -> None:
    (row,) = signal = coarse(1, samples, levels, seed)
    begin, runs = 0, []
    for _, equal in groupby(row.tolist()):
        end = begin + len(list(equal))
        runs.append(range(begin, end))
        begin = end
    for number, found in enumerate(windows_touching_run(signal, spec, run)[0].tolist()):
        window = set(range(number * spec.step, number * spec.step + spec.length))
        reached = any(len(one) >= run and len(window.intersection(one)) >= 2 for one in runs)
        assert found == (reached and run <= spec.length)


def test_a_coarse_sensor_has_more_equal_samples() -> None:
    spec = WindowSpec(128, 2)
    fine, rough = (
        usual_equal_samples([coarse(1, 20_000, levels, n) for n in range(3)], spec)[0] for levels in (10**6, 4)
    )
    assert fine == EqualSampleCounts(1, 2)
    assert rough.in_a_row > 3
    assert rough.at_extremes > 5


def test_a_short_defect_does_not_change_what_is_usual() -> None:
    sound = coarse(2, 400_000, 10**6, 0)
    broken = sound.copy()
    broken[0, 1000:1100] = 0.0
    spec = WindowSpec(128, 64)
    assert usual_equal_samples([broken], spec) == usual_equal_samples([sound], spec)


def test_a_channel_of_two_levels_usually_has_many_equal_samples() -> None:
    square = np.sign(np.sin(np.arange(20_000) / 50))[None].astype(np.float32)
    (counts,) = usual_equal_samples([square], WindowSpec(1024, 16))
    assert counts.at_extremes == 1024
    assert 120 < counts.in_a_row <= 158
