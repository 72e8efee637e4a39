from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.check.overlaps import Overlap, find_overlaps, fit_copy, read_samples
from cgsa.check.recordings import BLOCK, in_memory
from cgsa.check.summary import summarise_recording
from cgsa.data.recording import Recording


def recording(signal: np.ndarray, name: str = "one") -> Recording:
    rows = np.atleast_2d(signal).astype(np.float32)
    return Recording(rows, 1000.0, tuple("abc"[: len(rows)]), ("g",) * len(rows), source=name)


def overlaps_of(*signals: np.ndarray) -> list[Overlap]:
    return find_overlaps([summarise_recording(in_memory(recording(one, str(n)))) for n, one in enumerate(signals)])


@settings(max_examples=20)
@given(
    st.integers(0, 1000),
    st.integers(700, 2500),
    st.floats(0.01, 100.0),
    st.sampled_from([-1, 1]),
    st.floats(-10.0, 10.0),
)
def test_a_copied_stretch_is_found_wherever_it_is_and_however_it_is_scaled(
    seed: int, length: int, scale: float, sign: int, offset: float
) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=4000), rng.normal(size=4000)
    begin, other = rng.integers(4000 - length, size=2)
    factor = sign * scale
    second[other : other + length] = factor * first[begin : begin + length] + offset * scale
    [found] = overlaps_of(first, second)
    assert found.second.begin - found.first.begin == other - begin
    np.testing.assert_allclose(found.scale, factor, rtol=1e-3)


def test_copies_of_a_periodic_signal_differ_from_repeated_measurements_of_it() -> None:
    rng = np.random.default_rng(3)
    wave = 100 * np.sin(2 * np.pi * np.arange(5000) / 64)
    one, other = (wave + rng.normal(size=5000) for _ in range(2))
    assert overlaps_of(one, other) == []
    assert len(overlaps_of(one, other, np.round(one, 2))) == 1


def test_ten_copies_are_all_linked() -> None:
    signal = np.random.default_rng(4).normal(size=3000)
    linked = {stretch.recording for one in overlaps_of(*[signal] * 10) for stretch in (one.first, one.second)}
    assert linked == set(range(10))


def test_a_recording_that_repeats_a_block_overlaps_with_itself() -> None:
    signal = np.random.default_rng(5).normal(size=5000)
    signal[3000:4500] = signal[500:2000]
    [found] = overlaps_of(signal)
    assert (found.first.recording, found.second.recording) == (0, 0)
    assert found.second.begin - found.first.begin == 2500


def test_white_noise_is_no_copy_of_other_white_noise() -> None:
    rng = np.random.default_rng(6)
    assert fit_copy(rng.normal(size=1000), rng.normal(size=1000)) is None


def test_samples_are_read_across_blocks() -> None:
    signal = np.arange(BLOCK + 100, dtype=np.float32)
    np.testing.assert_array_equal(
        read_samples(in_memory(recording(signal)), 0, BLOCK - 5, BLOCK + 5), signal[BLOCK - 5 : BLOCK + 5]
    )
