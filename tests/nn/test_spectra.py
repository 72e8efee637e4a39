from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import logm

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.errors import ConfigError
from cgsa.nn.spectra import (
    CROSS_LOADING,
    ENVELOPE_FRAME,
    ENVELOPE_HOP,
    ENVELOPES,
    FEATURES,
    LEAST_RATIO,
    RELATIVE_FLOOR,
    FeatureConfig,
    WindowFeatures,
    build_features,
    hop_of,
    third_octaves,
)

Array = npt.NDArray[np.float64]
KINDS = list(FEATURES)


def fitted(kind: str, frame: int, spec: WindowSpec, samples: torch.Tensor) -> WindowFeatures:
    features = build_features(FeatureConfig(kind, frame), len(samples), spec)
    features.fit(samples)
    return features


def noise(channels: int, samples: int, seed: int = 0) -> torch.Tensor:
    """Channels that have something in common, and an offset."""
    white = torch.randn(channels + 1, samples, generator=torch.Generator().manual_seed(seed))
    return 2 * white[:-1] + white[-1:] + 1


def least_samples(kind: str, frame: int) -> int:
    return (frame - 1) * ENVELOPE_HOP + ENVELOPE_FRAME if kind in ENVELOPES else frame


# The same features, literally: one window, one frame, one channel at a time.


def literal_lines(frame: Array) -> npt.NDArray[np.complex128]:
    taper = torch.hann_window(len(frame), periodic=True).double().numpy()
    return np.asarray(np.fft.rfft((frame - frame.mean()) * taper)[1:])


def literal_frames(signal: Array, frame: int, hop: int) -> Iterator[Array]:
    for begin in range(0, len(signal) - frame + 1, hop):
        yield signal[begin : begin + frame]


def literal_floor(samples: torch.Tensor, frame: int) -> list[float]:
    taper = torch.hann_window(frame, periodic=True).double().numpy()
    return [float(RELATIVE_FLOOR * one.var() * (taper**2).sum()) for one in samples.double().numpy()]


def literal_spectrum(window: Array, floor: list[float], frame: int, step: int) -> Array:
    hop, _ = hop_of(frame, step)
    found = []
    for channel, least in zip(window, floor, strict=True):
        powers = [np.abs(literal_lines(one)) ** 2 for one in literal_frames(channel, frame, hop)]
        found.append(np.log(np.mean(powers, axis=0) + least))
    return np.concatenate(found)


def literal_cross_spectrum(window: Array, floor: list[float], frame: int, step: int) -> Array:
    hop, _ = hop_of(frame, step)
    channels, bins = len(window), frame // 2
    lines = [[literal_lines(one) for one in literal_frames(channel, frame, hop)] for channel in window]
    diagonal, real, imaginary = [], [], []
    for number in range(bins):
        matrix = np.zeros((channels, channels), complex)
        for i in range(channels):
            for j in range(channels):
                products = [a[number] * b[number].conj() for a, b in zip(lines[i], lines[j], strict=True)]
                matrix[i, j] = np.mean(products)
        loading = CROSS_LOADING * np.mean(np.diagonal(matrix).real)
        result = logm(matrix + np.diag([loading + least for least in floor]))
        diagonal += [result[i, i].real for i in range(channels)]
        real += [result[i, j].real for i in range(channels) for j in range(i + 1, channels)]
        imaginary += [result[i, j].imag for i in range(channels) for j in range(i + 1, channels)]
    return np.asarray(diagonal + real + imaginary)


def literal_envelope(window: Array, floor: list[float], frame: int, step: int, *, first: int = 0) -> Array:
    hop, _ = hop_of(frame, step // ENVELOPE_HOP, overlap=4)
    found = []
    for channel, least in zip(window, floor, strict=True):
        envelope = np.asarray(
            [
                np.sqrt((np.abs(literal_lines(one)[first:]) ** 2).sum() + least)
                for one in literal_frames(channel, ENVELOPE_FRAME, ENVELOPE_HOP)
            ]
        )
        frames = list(literal_frames(envelope, frame, hop))
        power = np.mean([np.abs(literal_lines(one)[: frame // 4]) ** 2 for one in frames], axis=0)
        level = np.mean([one.mean() for one in frames])
        found.append(np.log(power / level**2 + RELATIVE_FLOOR))
    return np.concatenate(found)


def literal_cepstrum(window: Array, floor: list[float], frame: int, step: int) -> Array:
    logs = literal_spectrum(window, floor, frame, step).reshape(len(window), -1)
    # The real, even spectrum of every line twice, but for the first and the last of an even number.
    whole = [[one[0], *one, *(one[::-1][1:] if frame % 2 == 0 else one[::-1])] for one in logs]
    values = 2 * (logs.shape[1])
    return np.concatenate([np.fft.ifft(one[:values]).real[: frame // 2] for one in whole])


def literal_statistics(window: Array, floor: list[float], frame: int, step: int) -> Array:
    hop, _ = hop_of(frame, step)
    taper = torch.hann_window(frame, periodic=True).double().numpy()
    found = []
    for channel, least in zip(window, floor, strict=True):
        frames = [one - one.mean() for one in literal_frames(channel, frame, hop)]
        values = []
        for pieces in (frames, [np.diff(one) for one in frames]):
            level = np.mean([np.mean(one**2) for one in pieces]) + least / (taper**2).sum()
            fourth, third = (np.mean([np.mean(one**power) for one in pieces]) for power in (4, 3))
            peak, size = (np.mean([how(np.abs(one)) for one in pieces]) for how in (np.max, np.mean))
            root = np.mean([np.mean(np.sqrt(np.abs(one))) for one in pieces])
            ratios = [fourth / level**2, peak / level**0.5, size / level**0.5, root**2 / level**0.5]
            values += [np.log(level), *(np.log(ratio + LEAST_RATIO) for ratio in ratios), third / level**1.5]
        power = np.mean([np.abs(literal_lines(one)) ** 2 for one in frames], axis=0)
        values += [np.log(power[first:end].mean() + least) for first, end in third_octaves(frame // 2)]
        found.append(values)
    return np.concatenate(found)


LITERAL: dict[str, Callable[[Array, list[float], int, int], Array]] = {
    "spectrum": literal_spectrum,
    "cross_spectrum": literal_cross_spectrum,
    "envelope": literal_envelope,
    "high_envelope": partial(literal_envelope, first=1),
    "cepstrum": literal_cepstrum,
    "statistics": literal_statistics,
}


@pytest.mark.parametrize(
    ("kind", "frame", "length", "step"),
    [
        ("spectrum", 32, 128, 16),
        ("spectrum", 15, 70, 21),
        ("spectrum", 64, 64, 64),
        ("cross_spectrum", 16, 80, 8),
        ("cross_spectrum", 8, 67, 24),
        ("envelope", 8, 128, 16),
        ("envelope", 16, 300, 24),
        ("envelope", 12, 203, 50),
        ("high_envelope", 8, 128, 16),
        ("cepstrum", 32, 128, 16),
        ("cepstrum", 16, 70, 24),
        ("statistics", 64, 256, 32),
        ("statistics", 16, 70, 24),
    ],
)
def test_features_against_loops(kind: str, frame: int, length: int, step: int) -> None:
    samples = noise(3, 500)
    features = fitted(kind, frame, WindowSpec(length, step), samples)
    windows = overlapping_windows(samples, length, step)
    some = [0, len(windows) // 2, len(windows) - 1]
    floor = literal_floor(samples, frame)
    expected = [LITERAL[kind](windows[place].double().numpy(), floor, frame, step) for place in some]
    for found in (features(windows), features(windows.contiguous())):
        assert found.shape == (len(windows), features.out_features)
        np.testing.assert_allclose(found[some].numpy(), expected, rtol=1e-4, atol=2e-4)


def test_a_window_is_cut_into_frames_that_overlap_by_half_and_are_shared_where_possible() -> None:
    assert hop_of(32, 16) == (16, True)
    assert hop_of(32, 64) == (16, True)
    assert hop_of(32, 24) == (8, True)
    assert hop_of(32, 4) == (4, True)
    # Too many frames: each window gets its own.
    assert hop_of(32, 2) == (16, False)
    assert hop_of(32, 17) == (16, False)
    assert hop_of(32, 8, overlap=4) == (8, True)


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_shared_frames_begin_where_windows_begin(frame: int, step: int) -> None:
    hop, shared = hop_of(frame, step)
    assert 1 <= hop <= max(1, frame // 2)
    if shared:
        assert step % hop == 0
        assert 4 * hop >= frame // 2


@st.composite
def cut_signals(draw: st.DrawFn) -> tuple[WindowFeatures, torch.Tensor]:
    """Features and windows, as a view of their samples."""
    kind = draw(st.sampled_from(KINDS))
    # The last digits of eigenvalues depend on the alignment of their matrix in memory.
    frame = draw(st.integers(1, 6)) * 8 if kind == "cross_spectrum" else draw(st.integers(4, 48))
    length = least_samples(kind, frame) + draw(st.integers(0, 150))
    step = draw(st.one_of(st.integers(1, 40), st.integers(1, 8).map(lambda number: 8 * number)))
    channels, count = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    samples = noise(channels, length + (count - 1) * step + draw(st.integers(0, 7)), seed=draw(st.integers(0, 99)))
    return fitted(kind, frame, WindowSpec(length, step), samples), overlapping_windows(samples, length, step)


@settings(max_examples=150)
@given(cut_signals())
def test_features_of_a_window_do_not_depend_on_its_neighbours_or_its_memory(
    cut: tuple[WindowFeatures, torch.Tensor],
) -> None:
    features, windows = cut
    found = features(windows)
    assert torch.equal(found, features(windows.contiguous()))
    assert torch.equal(found, torch.cat([features(one[None]) for one in windows]))
    assert torch.equal(found, torch.cat([features(one[None].clone()) for one in windows]))
    assert torch.equal(found[1:], features(windows[1:]))
    assert torch.equal(found[::2], features(windows[::2]))


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.integers(1, 40), st.integers(1, 40))
def test_a_stream_may_have_another_step_than_the_features_were_made_for(kind: str, step: int, other: int) -> None:
    samples = noise(2, 300)
    features = fitted(kind, 8, WindowSpec(96, step), samples)
    windows = overlapping_windows(samples, 96, other)
    assert torch.equal(features(windows), features(windows.contiguous()))


@settings(max_examples=25)
@given(st.floats(0.1, 50.0), st.integers(0, 99))
def test_a_gain_shifts_spectra_and_leaves_envelopes_unchanged(gain: float, seed: int) -> None:
    spec, samples = WindowSpec(256, 32), noise(2, 600, seed)
    windows = overlapping_windows(samples, spec.length, spec.step)
    for kind, shift in (("spectrum", 2 * np.log(gain)), ("envelope", 0.0)):
        features = fitted(kind, 16, spec, samples)
        torch.testing.assert_close(features(gain * windows), features(windows) + shift, rtol=1e-4, atol=2e-3)
    cross = fitted("cross_spectrum", 16, spec, samples)
    moved = cross(gain * windows) - cross(windows)
    diagonal = 2 * 8
    expected = torch.full_like(moved[:, :diagonal], 2 * np.log(gain))
    torch.testing.assert_close(moved[:, :diagonal], expected, rtol=1e-4, atol=2e-3)
    torch.testing.assert_close(moved[:, diagonal:], torch.zeros_like(moved[:, diagonal:]), rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_offset_changes_nothing(kind: str) -> None:
    samples = noise(2, 600)
    features = fitted(kind, 16, WindowSpec(256, 32), samples)
    windows = overlapping_windows(samples, 256, 32)
    torch.testing.assert_close(features(windows + 5), features(windows), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_dead_channels_have_finite_features(kind: str) -> None:
    spec, samples = WindowSpec(256, 32), noise(2, 600)
    alive = fitted(kind, 16, spec, samples)
    for constant in (0.0, 3.0):
        assert bool(torch.isfinite(alive(torch.full((2, 2, 256), constant))).all())
    samples[1] = 7.0
    half = fitted(kind, 16, spec, samples)
    assert bool(torch.isfinite(half(overlapping_windows(samples, 256, 32))).all())
    assert bool(torch.isfinite(half(noise(2, 256)[None])).all())
    dead = fitted(kind, 16, spec, torch.zeros(2, 600))
    assert bool(torch.isfinite(dead(torch.zeros(2, 2, 256))).all())
    assert bool(torch.isfinite(dead(noise(2, 256)[None])).all())


def test_the_envelope_shows_how_often_impacts_come() -> None:
    """A resonance of any frequency that is excited once per 128 samples."""
    time = torch.arange(8192)
    spec, frame = WindowSpec(4096, 512), 128
    for resonance in (0.21, 0.37):
        ringing = torch.exp(-(time % 128) / 10.0) * torch.sin(2 * torch.pi * resonance * time)
        found = fitted("envelope", frame, spec, ringing[None])(ringing[None, None, :4096])[0]
        # 128 samples are 16 values of the envelope, so a frame has 8 impacts: line 8, the seventh place after line 1.
        assert int(found[4:12].argmax()) + 4 == 7


@pytest.mark.parametrize(
    ("kind", "frame", "message"),
    [
        ("wavelet", 16, "features 'wavelet'; expected one of spectrum, cross_spectrum, envelope"),
        ("spectrum", 3, "frames of 3 for spectrum in windows of 128 samples; expected 4 to 128"),
        ("spectrum", 129, "expected 4 to 128"),
        ("envelope", 16, "frames of 16 for envelope in windows of 128 samples; expected 4 to 15"),
    ],
)
def test_features_that_do_not_fit_their_windows_are_refused(kind: str, frame: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_features(FeatureConfig(kind, frame), 2, WindowSpec(128, 16))


def test_too_many_features_are_refused_before_anything_is_built() -> None:
    with pytest.raises(ConfigError, match="cross_spectrum 64 of 500000 channels: more than 1,048,576 features"):
        build_features(FeatureConfig("cross_spectrum", 64), 500_000, WindowSpec(128, 16))
