from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.config import as_table, bind
from cgsa.data.equal_samples import EqualSampleCounts
from cgsa.data.recording import FloatArray
from cgsa.data.windows import WindowSpec
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.live.intake.quality import (
    CLIPPED,
    DROP_OUT,
    FLAT_LINE,
    GOOD,
    INFINITE,
    NOT_A_NUMBER,
    OUT_OF_RANGE,
    WINDOW_REASONS,
    QualityConfig,
    QualityGate,
)

SPEC = WindowSpec(64, 16)
CONFIG = QualityConfig()


def noise(channels: int = 2, samples: int = 400, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(channels, samples)).astype(np.float32)


class LiteralGate:
    """Checks the windows of one channel one by one, sample by sample."""

    def __init__(self, held: int, clipped: int, config: QualityConfig, scale: tuple[float, float] | None) -> None:
        self.held, self.clipped, self.config = held, clipped, config
        self.mean, self.deviation = scale or (0.0, math.inf)
        self.limits: dict[int, float] = {}

    def check(self, signal: FloatArray, spec: WindowSpec) -> list[str]:
        windows_at = [range(at, at + spec.length) for at in starts(spec, len(signal))]
        windows = [[float(signal[place]) for place in window] for window in windows_at]
        runs = self._runs(signal[: windows_at[-1].stop].tolist()) if windows_at and self.held <= spec.length else []
        drops_out = [any(len(set(run) & set(window)) >= 2 for run in runs) for window in windows_at]
        finite = [[value for value in values if math.isfinite(value)] for values in windows]
        clips = [bool(values) and self._at_extremes(values) >= self.clipped for values in finite]
        at_limit = [False] * len(windows)
        for sign in (1, -1):
            tops = [max((sign * value for value in values), default=-math.inf) for values in finite]
            most = max(tops, default=-math.inf)
            if not math.isfinite(most):
                continue
            reveals = any(
                clip and top == most and values.count(sign * top) >= 2
                for clip, top, values in zip(clips, tops, finite, strict=True)
            )
            if reveals or self.limits.get(sign) == most:
                self.limits[sign] = most
                at_limit = [before or top == most for before, top in zip(at_limit, tops, strict=True)]
            elif most > self.limits.get(sign, math.inf):
                del self.limits[sign]
        return [
            self._reason(values, clipped=clip or limit, drops_out=drop)
            for values, clip, limit, drop in zip(windows, clips, at_limit, drops_out, strict=True)
        ]

    def _runs(self, values: list[float]) -> list[range]:
        found, begin = [], 0
        for place in range(1, len(values) + 1):
            if place == len(values) or values[place] != values[begin] or not math.isfinite(values[place]):
                if place - begin >= self.held:
                    found.append(range(begin, place))
                begin = place
        return found

    def _at_extremes(self, values: list[float]) -> int:
        return values.count(max(values)) + values.count(min(values))

    def _reason(self, values: list[float], *, clipped: bool, drops_out: bool) -> str:
        longest = max(len(list(run)) for _, run in groupby(values))
        reach = self.config.range_deviations * self.deviation
        found = {
            NOT_A_NUMBER: any(math.isnan(value) for value in values),
            INFINITE: any(math.isinf(value) for value in values),
            FLAT_LINE: longest >= max(self.held, self.config.flat_share * len(values)),
            CLIPPED: clipped,
            DROP_OUT: drops_out,
            OUT_OF_RANGE: any(abs(value - self.mean) > reach for value in values),
        }
        return next((reason for reason, holds in found.items() if holds), GOOD)


def reasons(codes: Iterable[int]) -> list[str]:
    return [WINDOW_REASONS[code] for code in codes]


def starts(spec: WindowSpec, samples: int) -> range:
    return range(0, spec.count(samples) * spec.step, spec.step)


@st.composite
def signals(draw: st.DrawFn) -> FloatArray:
    """Draw samples of few levels, so that equal ones are common, with rare values that no sensor should send."""
    channels, samples = draw(st.integers(1, 3)), draw(st.integers(1, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([1, 2, 4, 30, 1000]))
    steps = np.repeat(rng.integers(-levels, levels + 1, (channels, samples)), draw(st.integers(1, 12)), axis=1)
    found: FloatArray = steps[:, :samples].astype(np.float32)
    for value in (np.nan, np.inf, -np.inf, 1e30, -0.0):
        found[rng.random(found.shape) < draw(st.sampled_from([0.0, 0.0, 0.005]))] = value
    return found


@given(
    signal=signals(),
    cuts=st.lists(st.integers(0, 120), max_size=3).map(sorted),
    spec=st.builds(WindowSpec, st.integers(2, 40), st.integers(1, 45)),
    config=st.builds(
        QualityConfig,
        flat_share=st.sampled_from([0.3, 0.5, 0.75, 1.0]),
        range_deviations=st.sampled_from([2.0, 50.0]),
    ),
    limits=st.tuples(st.integers(2, 12), st.integers(3, 14)),
    scaled=st.booleans(),
)
@settings(max_examples=300)
def test_codes_equal_those_of_the_literal_twin(
    signal: FloatArray,
    cuts: list[int],
    spec: WindowSpec,
    config: QualityConfig,
    limits: tuple[int, int],
    *,
    scaled: bool,
) -> None:
    mean, deviation = np.array([0.0, 1.0, -2.0])[: len(signal)], np.array([1.0, 0.5, 8.0])[: len(signal)]
    exact = replace(config, held_samples=limits[0], clipped_samples=limits[1])
    gate = QualityGate(exact, spec, len(signal), scale=(mean, deviation) if scaled else None)
    literal = [
        LiteralGate(*limits, config, (float(mean[n]), float(deviation[n])) if scaled else None)
        for n in range(len(signal))
    ]
    for piece in np.split(signal, cuts, axis=1):
        flags = gate.check(piece)
        assert flags.codes.shape == (len(signal), spec.count(piece.shape[1]))
        for twin, row, codes in zip(literal, piece, flags.codes, strict=True):
            assert reasons(codes) == twin.check(row, spec)
        for window, codes in enumerate(flags.codes.T):
            assert flags.worst[window] == max(codes)
            assert flags.good[window] == all(code == 0 for code in codes)


@given(signal=signals(), cut=st.integers(0, 60))
def test_a_gate_resumes_from_its_state(signal: FloatArray, cut: int) -> None:
    spec = WindowSpec(24, 6)
    first, other = (QualityGate(CONFIG, spec, len(signal)) for _ in range(2))
    first.check(signal[:, :cut])
    other.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(other.check(signal[:, cut:]).codes, first.check(signal[:, cut:]).codes)


def test_a_state_of_other_channels_is_refused() -> None:
    with pytest.raises(BundleError, match=r"expected \(2, 3\)"):
        QualityGate(CONFIG, SPEC, 3).load_state_dict(QualityGate(CONFIG, SPEC, 2).state_dict())
    with pytest.raises(BundleError, match="clipping limits of shape None"):
        QualityGate(CONFIG, SPEC, 3).load_state_dict({})


@given(
    place=st.integers(0, 399),
    channel=st.integers(0, 1),
    fault=st.sampled_from(
        [(np.nan, NOT_A_NUMBER), (np.inf, INFINITE), (-np.inf, INFINITE), (51.0, OUT_OF_RANGE), (-51.0, OUT_OF_RANGE)]
    ),
)
def test_one_bad_sample_flags_exactly_the_windows_around_it(place: int, channel: int, fault: tuple[float, str]) -> None:
    signal = noise()
    signal[channel, place] = fault[0]
    flags = QualityGate(CONFIG, SPEC, 2, scale=([0, 0], [1, 1])).check(signal)
    holds = [at <= place < at + SPEC.length for at in starts(SPEC, 400)]
    assert reasons(flags.worst) == [fault[1] if held else GOOD for held in holds]
    assert flags.good.tolist() == [not held for held in holds]
    assert not flags.codes[1 - channel].any()


def test_sound_noise_is_good() -> None:
    gate = QualityGate(CONFIG, WindowSpec(), 2, scale=([0, 0], [1, 1]), equal_samples=[EqualSampleCounts(2, 2)] * 2)
    assert gate.check(noise(samples=100_000)).good.all()


def test_less_than_a_window_gives_no_flags() -> None:
    flags = QualityGate(CONFIG, SPEC, 2).check(noise(samples=63))
    assert flags.codes.shape == (2, 0)
    assert flags.worst.shape == flags.good.shape == (0,)


@pytest.mark.parametrize("run", [3, 4, 5, 6, 31, 32, 64])
@pytest.mark.parametrize("value", [0.0, 0.25])
@pytest.mark.parametrize(
    ("usual", "most"),
    [(EqualSampleCounts(1, 2), 4), (EqualSampleCounts(2, 2), 4), (EqualSampleCounts(3, 2), 5), (None, 6)],
)
def test_held_samples_are_a_drop_out_and_then_a_flat_line(
    run: int, value: float, usual: EqualSampleCounts | None, most: int
) -> None:
    signal = noise(1, 64)
    signal[0, :run] = value
    expected = GOOD if run < most else DROP_OUT if run < 32 else FLAT_LINE
    gate = QualityGate(CONFIG, SPEC, 1, equal_samples=None if usual is None else [usual])
    assert reasons(gate.check(signal).worst) == [expected]


@pytest.mark.parametrize(
    ("usual", "most"),
    [(EqualSampleCounts(1, 2), 4), (EqualSampleCounts(1, 3), 5), (EqualSampleCounts(1, 6), 9), (None, 9)],
)
def test_samples_at_the_extremes_are_clipped_from_half_more_than_usual_on(
    usual: EqualSampleCounts | None, most: int
) -> None:
    for count, expected in ((most - 1, GOOD), (most, CLIPPED)):
        signal = noise(1, 64)
        signal[0, : 2 * (count - 1) : 2] = 7.0  # one more is at the other extreme
        gate = QualityGate(CONFIG, SPEC, 1, equal_samples=None if usual is None else [usual])
        assert reasons(gate.check(signal).worst) == [expected]


def test_a_configured_limit_overrides_the_usual_counts() -> None:
    signal = noise(1, 64)
    signal[0, :8] = 0.0
    assert reasons(
        QualityGate(replace(CONFIG, held_samples=9), SPEC, 1, equal_samples=[EqualSampleCounts(1, 2)])
        .check(signal)
        .worst
    ) == [GOOD]


def test_every_channel_has_its_own_limits() -> None:
    signal = noise(2, 64)
    signal[:, :5] = 0.0
    gate = QualityGate(CONFIG, SPEC, 2, equal_samples=[EqualSampleCounts(2, 2), EqualSampleCounts(4, 2)])
    assert reasons(gate.check(signal).codes[:, 0]) == [DROP_OUT, GOOD]
    with pytest.raises(DataError, match="usual equal samples for 2 channels; expected 3"):
        QualityGate(CONFIG, SPEC, 3, equal_samples=[EqualSampleCounts(2, 2), EqualSampleCounts(4, 2)])


def test_a_single_sample_at_a_known_limit_is_clipped_until_the_limit_is_exceeded() -> None:
    gate = QualityGate(CONFIG, SPEC, 1, equal_samples=[EqualSampleCounts(1, 2)])
    many, one, below, beyond = (noise(1, 64, seed) for seed in range(4))
    many[0, ::16], one[0, 5], beyond[0, 7] = 5.0, 5.0, 5.5
    found = [reasons(gate.check(signal).worst)[0] for signal in (one, many, one, below, one, beyond, one)]
    assert found == [GOOD, CLIPPED, CLIPPED, GOOD, CLIPPED, GOOD, GOOD]
    gate.check(many)
    gate.reset()
    assert reasons(gate.check(one).worst) == [GOOD]


@pytest.mark.parametrize(("end", "expected"), [(17, GOOD), (18, DROP_OUT), (21, DROP_OUT)])
def test_a_drop_out_flags_every_window_that_it_extends_into(end: int, expected: str) -> None:
    signal = noise(1, 80)
    signal[0, 8:end] = 0
    assert reasons(QualityGate(CONFIG, SPEC, 1).check(signal).worst) == [DROP_OUT, expected]


def test_a_run_is_a_flat_line_by_its_share_of_a_window() -> None:
    signal = noise(1, 80)
    signal[0, 8:41] = 0
    assert reasons(QualityGate(CONFIG, SPEC, 1).check(signal).worst) == [FLAT_LINE, DROP_OUT]


@pytest.mark.parametrize("kind", ["sine", "noise", "rumble"])
@pytest.mark.parametrize("one_sided", [False, True])
def test_clipping_is_found(kind: str, *, one_sided: bool) -> None:
    t = np.arange(4096)
    rumble = np.convolve(noise(1, 4096 + 7)[0], np.ones(8) / math.sqrt(8), mode="valid")
    signal = {"sine": math.sqrt(2) * np.sin(t / 7.3), "noise": noise(1, 4096)[0], "rumble": rumble}[kind]
    level = 1.3 if kind == "sine" else 1.5
    clipped = np.clip(signal, -np.inf if one_sided else -level, level)[None].astype(np.float32)
    gate = QualityGate(CONFIG, WindowSpec(), 1, equal_samples=[EqualSampleCounts(2, 2)])
    assert set(reasons(gate.check(clipped).worst)) == {CLIPPED}
    assert gate.check(signal[None].astype(np.float32)).good.all()


def test_the_most_severe_reason_counts() -> None:
    signal = noise(4, 64)
    signal[0, 5] = 1e6
    signal[1] = np.clip(signal[1], -0.5, 0.5)
    signal[2, 3], signal[3, 3], signal[3, 4] = np.inf, np.inf, np.nan
    flags = QualityGate(CONFIG, SPEC, 4, scale=(np.zeros(4), np.ones(4))).check(signal)
    assert reasons(flags.codes[:, 0]) == [OUT_OF_RANGE, CLIPPED, INFINITE, NOT_A_NUMBER]
    assert reasons(flags.worst) == [NOT_A_NUMBER]


def test_samples_are_not_modified() -> None:
    signal = noise()
    signal[0, 3] = np.nan
    before = signal.copy()
    QualityGate(CONFIG, SPEC, 2).check(signal)
    np.testing.assert_array_equal(signal, before)


def test_a_scale_may_be_a_column() -> None:
    signal = noise()
    signal[1, 0] = 8.0
    column = QualityGate(CONFIG, SPEC, 2, scale=(np.zeros((2, 1)), np.array([[1.0], [0.1]])))
    assert reasons(column.check(signal).codes[:, 0]) == [GOOD, OUT_OF_RANGE]


@pytest.mark.parametrize(
    ("mean", "deviation"), [([0.0], [1.0, 1.0]), ([0.0, 0.0], [1.0, 0.0]), ([0.0, np.nan], [1.0, 1.0])]
)
def test_an_invalid_scale_is_refused(mean: list[float], deviation: list[float]) -> None:
    with pytest.raises(DataError, match="expected a finite mean and a positive deviation"):
        QualityGate(CONFIG, SPEC, 2, scale=(mean, deviation))


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 400\); expected \(2, samples\)"):
        QualityGate(CONFIG, SPEC, 2, scale=([0, 0], [1, 1])).check(noise(3))
    for wrong in (noise()[0], noise(0)):
        with pytest.raises(DataError, match=r"expected \(2, samples\)"):
            QualityGate(CONFIG, SPEC, 2).check(wrong)


def test_settings_can_be_bound_and_are_checked() -> None:
    assert bind(QualityConfig, as_table(CONFIG), "example") == CONFIG
    for changes in (
        {"held_samples": 1},
        {"clipped_samples": 2},
        {"flat_share": 0.0},
        {"flat_share": 1.5},
        {"range_deviations": -1.0},
        {"rate_tolerance": 0.0},
        {"clock_tolerance": float("nan")},
    ):
        with pytest.raises(ConfigError, match="expected"):
            bind(QualityConfig, changes, "example")
