from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.nn.change import ChangeConfig, ChangeModel
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.frame_sums import FrameLayout, RecentFrames, sums_over_frames
from cgsa.nn.spectra import FeatureConfig, tapered_lines

FEATURES = (
    FeatureConfig("spectrum", 32),
    FeatureConfig("spectrum", 16),
    FeatureConfig("statistics", 32),
    FeatureConfig("cepstrum", 32),
    FeatureConfig("cross_spectrum", 16),
    FeatureConfig("envelope", 8),
    FeatureConfig("high_envelope", 8),
)
LENGTH, STEP = 128, 16


def noise(samples: int, seed: int = 0, channels: int = 2) -> torch.Tensor:
    return torch.randn(channels, samples, generator=torch.Generator().manual_seed(seed))


def model(step: int = STEP, length: int = LENGTH) -> FeatureModel:
    found = FeatureModel(FEATURES, 2, WindowSpec(length, step))
    found.fit_channels(noise(2000))
    return found


@given(st.integers(1, 20), st.integers(1, 8), st.integers(1, 5), st.integers(1, 12))
def test_sums_over_frames_against_loops(frames: int, block: int, windows: int, stride: int) -> None:
    every = torch.arange(2 * (frames + (windows - 1) * stride) * 3).reshape(2, -1, 3) ** 2
    expected = [every[:, begin : begin + frames].sum(dim=1) for begin in range(0, windows * stride, stride)]
    assert torch.equal(sums_over_frames(every, frames, block, windows, stride), torch.stack(expected, dim=1))


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, int, list[tuple[str, int]]]:
    """Step and length of windows, and batches: what happens before each, and its number of windows."""
    step = draw(st.sampled_from([8, 16, 24, 32, 7]))
    length = draw(st.integers(96, 200))
    before = st.sampled_from(
        ["continues", "continues", "continues", "gap", "other memory", "one differs", "not a number"]
    )
    return step, length, draw(st.lists(st.tuples(before, st.integers(1, 9)), min_size=2, max_size=6))


@settings(max_examples=80)
@given(streams())
def test_features_are_the_same_to_the_bit_with_what_was_computed_before(
    stream: tuple[int, int, list[tuple[str, int]]],
) -> None:
    step, length, batches = stream
    features, recent, place = model(step, length), RecentFrames(), 0
    samples = noise(10_000, seed=1)
    for happens, count in batches:
        place += 5 if happens == "gap" else 0
        part = samples[:, place : place + (count - 1) * step + length].clone()
        if happens == "one differs":
            part[1, 3] += 1e-6
        if happens == "not a number":
            part[0, 40] = torch.nan
        windows = overlapping_windows(part, length, step)
        windows = windows.clone() if happens == "other memory" else windows
        expected = features.extract(windows)
        for alone, found in zip(expected, features.extract(windows, recent), strict=True):
            assert torch.equal(alone.view(torch.int32), found.view(torch.int32))
        place += count * step


def test_a_batch_transforms_only_its_new_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    transformed: list[int] = []

    def counted(frames: torch.Tensor, taper: torch.Tensor) -> torch.Tensor:
        transformed.append(frames[..., 0].numel())
        return tapered_lines(frames, taper)

    monkeypatch.setattr("cgsa.nn.spectra.tapered_lines", counted)
    features, recent, samples = model(), RecentFrames(), noise(4000)
    counts = []
    for batch in range(3):
        begin = batch * 4 * STEP
        windows = overlapping_windows(samples[:, begin : begin + 3 * STEP + LENGTH], LENGTH, STEP)
        features.extract(windows, recent)
        counts.append(sum(transformed))
        transformed.clear()
    assert counts[1] == counts[2] < 0.7 * counts[0]


def test_the_memory_of_earlier_windows_may_be_used_again() -> None:
    features, recent, buffer = model(), RecentFrames(), torch.zeros(2, 3 * STEP + LENGTH)
    for seed in range(2):
        buffer.copy_(noise(buffer.shape[1], seed=seed))
        windows = overlapping_windows(buffer, LENGTH, STEP)
        for alone, found in zip(features.extract(windows), features.extract(windows, recent), strict=True):
            assert torch.equal(alone, found)


def test_the_lines_of_a_change_model_share_what_its_score_computed() -> None:
    found = ChangeModel(ChangeConfig(FEATURES[:2], (FEATURES[0],)), 2, WindowSpec(LENGTH, STEP))
    found.fit_channels(noise(2000))
    recent, samples = RecentFrames(), noise(1000, seed=2)
    for begin in (0, 4 * STEP, 8 * STEP):
        windows = overlapping_windows(samples[:, begin : begin + 3 * STEP + LENGTH], LENGTH, STEP)
        assert torch.equal(found.rows(windows), found.rows(windows, recent))
        assert torch.equal(found.line_rows(windows), found.line_rows(windows, recent))


def test_a_layout_with_windows_shorter_than_a_block() -> None:
    layout = FrameLayout(frames=3, block=8, windows=2, stride=8)
    every = torch.arange(11.0)[None, :, None]
    assert layout.add_windows(*layout.add_blocks(every)).flatten().tolist() == [3.0, 27.0]
