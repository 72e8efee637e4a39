from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.windows import Windows, WindowSpec, overlapping_windows, to_device, underlying_samples, window_means
from cgsa.errors import ConfigError, DataError
from tests.machines import BOTH, TwoConditions, noise_recording, segment, training_windows_of_both


def literal_windows(signal: np.ndarray, spec: WindowSpec) -> list[np.ndarray]:
    found = []
    begin = 0
    while begin + spec.length <= signal.shape[1]:
        found.append(signal[:, begin : begin + spec.length])
        begin += spec.step
    return found


def test_ten_seconds_have_the_number_of_windows_in_the_paper() -> None:
    assert WindowSpec().count(128_000) == 7937


@given(
    lengths=st.lists(st.integers(40, 150), min_size=1, max_size=4),
    length=st.integers(2, 40),
    step=st.integers(1, 50),
)
def test_gathered_windows_equal_literal_slices(lengths: list[int], length: int, step: int) -> None:
    spec = WindowSpec(length, step)
    recordings = [noise_recording(samples, seed=n) for n, samples in enumerate(lengths)]
    windows = Windows([segment(r, label=n, stage=n) for n, r in enumerate(recordings)], spec, conditions=["torque"])
    expected = [window for r in recordings for window in literal_windows(r.signal, spec)]
    assert len(windows) == len(expected)
    np.testing.assert_array_equal(windows.gather(torch.arange(len(windows))).numpy(), np.stack(expected))
    for begin in (0, len(windows) // 3, -2):
        for end in (None, 2 * len(windows) // 3, begin + 1):
            some = slice(begin, end)
            np.testing.assert_array_equal(windows.gather(some).numpy(), np.stack(expected)[some])
    for signal, recording in zip(windows.signals(), recordings, strict=True):
        np.testing.assert_array_equal(signal.numpy(), recording.signal)
    shuffled = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(windows.gather(shuffled).numpy(), np.stack(expected)[shuffled.numpy()])
    torque = [w.mean() for r in recordings for w in literal_windows(r.conditions["torque"][None], spec)]
    assert windows.conditions is not None
    np.testing.assert_allclose(windows.conditions.numpy(), np.array(torque)[:, None], rtol=1e-5)
    assert windows.labels.tolist() == [n for n, r in enumerate(recordings) for _ in literal_windows(r.signal, spec)]


def test_every_condition_has_a_column() -> None:
    windows = training_windows_of_both()
    segments = BOTH.training_segments(TwoConditions())
    for names in (["torque", "speed"], ["speed", "torque"], ["speed"]):
        found = Windows(segments, windows.spec, conditions=names).conditions
        alone = [Windows(segments, windows.spec, conditions=[name]).conditions for name in names]
        assert found is not None
        assert torch.equal(found, torch.cat([one for one in alone if one is not None], dim=1))
    some = windows.subset(torch.tensor([5, 2]))
    assert windows.conditions is not None
    assert some.conditions is not None
    assert torch.equal(some.conditions, windows.conditions[[5, 2]])


def test_batches_contain_every_window_once() -> None:
    windows = Windows([segment(noise_recording(300))], WindowSpec(32, 4))
    batches = list(windows.batches(25))
    assert [where.stop - where.start for where, _ in batches] == [25, 25, 18]
    torch.testing.assert_close(torch.cat([x for _, x in batches]), windows.gather(torch.arange(len(windows))))


def test_successive_windows_are_a_view_of_the_samples() -> None:
    windows = Windows([segment(noise_recording(300, seed=n), label=0, stage=n) for n in range(2)], WindowSpec(40, 8))
    inside, across = windows.gather(slice(3, 20)), windows.gather(slice(20, 40))
    shared = underlying_samples(inside)
    assert shared is not None
    samples, step = shared
    assert step == 8
    assert samples.data_ptr() == windows.samples[:, 24:].data_ptr()
    assert torch.equal(samples, windows.samples[:, 24 : 24 + 16 * 8 + 40])
    assert torch.equal(overlapping_windows(samples, 40, 8), inside)
    # Neighbours in the order of windows, but of two segments, share no samples; nor do copies, nor a single window.
    for apart in (across, inside.contiguous(), inside[:1], inside.double().flip(2)):
        assert underlying_samples(apart) is None


def test_one_segment_is_used_in_place() -> None:
    recording = noise_recording(300)
    windows = Windows([segment(recording)], WindowSpec(32, 4))
    assert np.shares_memory(windows.samples.numpy(), recording.signal)


def test_centred_samples_are_those_of_centred_segments() -> None:
    stated = replace(noise_recording(200), mean=np.array([3.0, -1.0]))
    segments = [segment(stated.cut(20, 150)), segment(noise_recording(100))]
    windows, centred = (Windows(some, WindowSpec(32, 4)) for some in (segments, [one.centred() for one in segments]))
    assert torch.equal(windows.centred_samples, centred.samples)
    assert centred.centred_samples is centred.samples
    assert not torch.equal(windows.samples, centred.samples)


def test_window_means_over_a_long_trace_stay_exact() -> None:
    trace = np.full(2_000_000, 1e4, dtype=np.float32)
    trace[-1024:] = 1.0
    assert window_means(trace, WindowSpec())[-1] == pytest.approx(1.0)


def test_mixed_rates_are_refused() -> None:
    with pytest.raises(DataError, match=r"mixed rates: two has 500 Hz, one has 1000 Hz"):
        Windows(
            [segment(noise_recording(source="one")), segment(noise_recording(source="two", rate=500.0))],
            WindowSpec(32, 4),
        )


def test_too_short_a_segment_is_located() -> None:
    with pytest.raises(DataError, match=r"noise: 20 samples from 30 on are too short for one window of 32"):
        Windows([segment(noise_recording().cut(30, 50))], WindowSpec(32, 4))


def test_unknown_condition_is_refused() -> None:
    with pytest.raises(DataError, match="no condition 'speed'; it has torque"):
        Windows([segment(noise_recording())], WindowSpec(32, 4), conditions=["speed"])


def test_no_segments_are_refused() -> None:
    with pytest.raises(DataError, match="no segment"):
        Windows([], WindowSpec(32, 4))


def test_invalid_spec_is_refused() -> None:
    with pytest.raises(ConfigError):
        WindowSpec(1024, 0)


def test_windows_are_transferred_as_the_samples_that_they_share() -> None:
    windows = Windows([segment(noise_recording(200, seed=0))], WindowSpec(32, 4))
    shared = windows.gather(slice(3, 20))
    there = to_device(shared, torch.device("meta"))
    assert there.shape == shared.shape
    assert there.stride() == (4, 16 * 4 + 32, 1)
    laid_out = to_device(shared.contiguous(), torch.device("meta"))
    assert laid_out.is_contiguous()
    assert to_device(shared, torch.device("cpu")) is shared
