from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.scenario import Condition
from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError, DataError
from cgsa.nn.orders import SpeedConfig
from cgsa.nn.spectra import ENVELOPES, FeatureConfig, build_features
from cgsa.offline.portfolio import (
    LEAST_FRAME,
    LEAST_LONGEST_FRAME,
    PortfolioConfig,
    choose_features,
    choose_window,
    longest_frame,
    nearest_power_of_two,
    training_speed,
)

RATES = st.floats(1.0, 200_000.0)


@given(RATES, st.integers(1, 1_000_000), st.floats(0.01, 60.0))
def test_windows_fit_their_recordings_and_share_their_frames(rate: float, shortest: int, seconds: float) -> None:
    frame = longest_frame(rate)
    if shortest < frame:
        with pytest.raises(DataError, match=f"the shortest recording has {shortest} samples"):
            choose_window(PortfolioConfig(seconds), rate, shortest)
        return
    spec = choose_window(PortfolioConfig(seconds), rate, shortest)
    assert spec.length % spec.step == 0
    assert frame <= spec.length <= shortest
    assert frame == 2 * spec.step
    if shortest >= 3 * frame:
        assert 3 * spec.length <= shortest
    assert spec.length <= max(seconds * rate, frame, 256)


@given(RATES, st.integers(1, 12), st.integers(1, 1_000_000))
def test_every_chosen_kind_of_features_fits_the_windows(rate: float, channels: int, shortest: int) -> None:
    if shortest < longest_frame(rate):
        return
    spec = choose_window(PortfolioConfig(), rate, shortest)
    chosen = choose_features(rate, channels, spec)
    assert chosen.classifiers == ("logistic", "lda", "kernel", "trees")
    kinds = {one.kind for one in chosen.features}
    assert "spectrum" in kinds
    assert ("cross_spectrum" in kinds) == (channels > 1)
    assert rate >= 1000 or not kinds & set(ENVELOPES)
    for one in chosen.features:
        # Features that share frames, and matrices that are aligned in memory, need powers of two.
        assert one.frame >= LEAST_FRAME
        assert one.frame & (one.frame - 1) == 0
        features = build_features(one, channels, WindowSpec(spec.length, spec.step))
        assert features._shared
        if one.kind == "cross_spectrum":
            assert features.out_features <= 4096


@given(st.floats(1.0, 1e9))
def test_powers_of_two(value: float) -> None:
    below, near = nearest_power_of_two(value, at_most=True), nearest_power_of_two(value)
    assert below <= value < 2 * below
    assert near in {below, 2 * below}
    assert near / value <= 2**0.5 + 1e-9
    assert value / near <= 2**0.5 + 1e-9


def test_numbers_below_one_become_one() -> None:
    assert nearest_power_of_two(0.3) == nearest_power_of_two(0.3, at_most=True) == 1


def test_the_choice_for_a_usual_sensor() -> None:
    spec = choose_window(PortfolioConfig(), 12_800.0, 128_000)
    assert spec == WindowSpec(12_800, 512)
    chosen = [(one.kind, one.frame) for one in choose_features(12_800.0, 3, spec).features]
    assert chosen == [
        ("spectrum", 1024),
        ("spectrum", 512),
        ("spectrum", 256),
        ("spectrum", 128),
        ("statistics", 1024),
        ("cepstrum", 1024),
        ("cross_spectrum", 128),
        ("cross_spectrum", 64),
        ("envelope", 1024),
        ("high_envelope", 1024),
    ]


def test_the_choice_for_a_slow_sensor() -> None:
    spec = choose_window(PortfolioConfig(), 50.0, 6000)
    assert spec == WindowSpec(256, LEAST_LONGEST_FRAME // 2)
    chosen = choose_features(50.0, 1, spec).features
    spectra = tuple(FeatureConfig("spectrum", frame) for frame in (64, 32, 16, 8))
    assert chosen == (*spectra, FeatureConfig("statistics", 64), FeatureConfig("cepstrum", 64))


def test_many_channels_get_shorter_frames_of_cross_spectra() -> None:
    spec = WindowSpec(12_800, 512)
    frames = {
        channels: [one.frame for one in choose_features(12_800.0, channels, spec).features if "cross" in one.kind]
        for channels in (2, 8, 20)
    }
    assert frames == {2: [128, 64], 8: [128, 64], 20: [16]}


@pytest.mark.parametrize("seconds", [0.0, -1.0, 61.0])
def test_impossible_windows_are_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match=r"ensemble\.seconds .*; expected above 0 and at most 60"):
        PortfolioConfig(seconds)


def test_short_recordings_are_refused_with_what_is_needed() -> None:
    with pytest.raises(DataError, match=r"has 100 samples, 0\.00781 s; .* at least 1024 samples, 0\.08 s"):
        choose_window(PortfolioConfig(), 12_800.0, 100)


def test_the_training_speed_is_the_geometric_mean_of_the_first_condition_that_is_a_speed() -> None:
    torque, speed = Condition("torque", "Nm", 0, 1, 0.1), Condition("speed", "rpm", 600, 2400, 10.0)
    values = torch.tensor([[0.5, 600.0], [0.5, 2400.0], [0.5, 0.0]])
    found = training_speed((torque, speed), values)
    assert found is not None
    assert found.condition == 1
    assert found.reference == pytest.approx(1200.0)
    assert training_speed((torque,), values[:, :1]) is None
    assert training_speed((speed,), torch.zeros(3, 1)) is None
    assert training_speed((speed,), None) is None


def test_only_envelopes_are_moved_into_orders() -> None:
    speed = SpeedConfig(0, 1200.0)
    assert choose_features(12_800.0, 2, WindowSpec(12_800, 640), speed).speed == speed
    assert choose_features(99.0, 3, WindowSpec(256, 32), speed).speed is None
