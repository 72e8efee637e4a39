from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.events import LevelReport
from cgsa.live.intake.quality import CLIPPED, DROP_OUT, OUT_OF_RANGE, WINDOW_REASONS, QualityFlags
from cgsa.live.levels.config import LevelConfig
from cgsa.live.levels.meter import LevelMeter
from cgsa.live.levels.monitor import LevelMonitor, MonitoredBatch
from cgsa.nn.bundle import Manifest
from tests.machines import manifest

RATE, SAMPLES = 1000.0, 1000
SPEC = WindowSpec(length=200, step=100)
WINDOWS = SPEC.count(SAMPLES)
MACHINE = replace(
    manifest(), channels=("x", "torque"), units=("m/s2", "Nm"), sample_rate=RATE, window=SPEC, lowest_levels=(0.3, 0.3)
)
"""A machine with an accelerometer and a torque sensor."""


def batch(velocity: float, torque: float = 1.0) -> np.ndarray:
    """One second with a velocity in mm/s, RMS, at 50 Hz."""
    time = np.arange(SAMPLES) / RATE
    acceleration = velocity / 1000 * 2 * math.pi * 50 * math.sqrt(2) * np.sin(2 * math.pi * 50 * time)
    return np.stack([acceleration, torque * np.sin(2 * math.pi * 7 * time)]).astype(np.float32)


def good() -> QualityFlags:
    return QualityFlags(np.zeros((2, WINDOWS), np.int8))


def monitor(*limits: str, about: Manifest = MACHINE, **settings: object) -> LevelMonitor:
    config = LevelConfig(limits, **{"duration": 2.0, **settings})  # type: ignore[arg-type]
    return LevelMonitor(config, about, batch_samples=SAMPLES)


def fed(one: LevelMonitor, velocities: Iterator[float] | list[float], begin: float = 0.0) -> list[MonitoredBatch]:
    return [
        one.step(batch(velocity), good(), begin + second, begin + second + 1.0)
        for second, velocity in enumerate(velocities)
    ]


def states(found: list[MonitoredBatch]) -> list[str]:
    return [one.report.limits[0].state for one in found]


def test_measures_each_channel_in_its_unit_and_the_velocity_of_vibrations() -> None:
    (found,) = fed(monitor(), [3.0])
    x, torque = found.report.channels
    assert x.velocity == pytest.approx(3.0, rel=1e-3)
    assert x.rms == pytest.approx(0.003 * 2 * math.pi * 50, rel=1e-3)
    assert x.peak == pytest.approx(math.sqrt(2) * 0.003 * 2 * math.pi * 50, rel=1e-3)
    assert (torque.unit, torque.velocity) == ("Nm", None)
    assert torque.rms == pytest.approx(math.sqrt(0.5), rel=1e-3)
    assert found.report.band == (10.0, 390.625)
    assert found.report.note == "velocity up to 390.6 instead of 1000 Hz: the sample rate is 1000 Hz"
    assert (found.report.limits, found.report.trends, found.notes) == ((), (), ())


def test_a_level_above_a_limit_is_reported_with_value_and_limit() -> None:
    found = fed(monitor("x velocity 4.5 7.1"), [2, 5, 5, 8, 8, 8, 2, 2])
    assert states(found) == ["normal", "normal", "warning", "warning", "alarm", "alarm", "alarm", "normal"]
    assert [note for one in found for note in one.notes] == [
        "x velocity 5 mm/s, warning limit 4.5 mm/s",
        "x velocity 8 mm/s, alarm limit 7.1 mm/s",
        "x velocity 2 mm/s, warning limit 4.5 mm/s, alarm limit 7.1 mm/s; returned to normal",
    ]
    (limited,) = found[4].report.limits
    assert (limited.channel, limited.quantity, limited.unit) == ("x", "velocity", "mm/s")
    assert limited.value == pytest.approx(8.0, rel=1e-3)
    assert (limited.warning, limited.alarm) == (4.5, 7.1)


def test_overlapping_batches_count_their_new_seconds_only() -> None:
    one = monitor("x velocity 4.5 7.1", duration=2.0)
    found = [one.step(batch(5.0), good(), 0.25 * n, 0.25 * n + 1.0) for n in range(8)]
    assert states(found) == ["normal"] * 4 + ["warning"] * 4


def test_clipped_signals_are_measured_and_drop_outs_are_not() -> None:
    meter = LevelMeter(MACHINE, (10.0, 1000.0), batch_samples=SAMPLES)
    for reason in (CLIPPED, OUT_OF_RANGE):
        flags = good()
        flags.codes[0] = WINDOW_REASONS.index(reason)
        assert meter.measure(batch(3.0), flags)[0, 2] == pytest.approx(3.0, rel=1e-3)
    flags = good()
    flags.codes[0] = WINDOW_REASONS.index(DROP_OUT)
    levels = meter.measure(batch(3.0), flags)
    assert np.isnan(levels[0]).all()
    assert levels[1, 0] == pytest.approx(math.sqrt(0.5), rel=1e-3)


def test_the_longest_part_without_a_drop_out_is_measured() -> None:
    meter = LevelMeter(MACHINE, (10.0, 1000.0), batch_samples=SAMPLES)
    samples, flags = batch(3.0), good()
    samples[0, 150:250] = np.nan
    flags.codes[0, :3] = WINDOW_REASONS.index(DROP_OUT)
    assert meter.measure(samples, flags)[0, 2] == pytest.approx(3.0, rel=1e-2)
    assert meter.measure(samples, flags)[0, 0] == pytest.approx(0.003 * 2 * math.pi * 50, rel=1e-3)
    assert np.isnan(meter.measure(samples, good())[0]).all()


def test_seconds_without_a_level_neither_raise_nor_clear() -> None:
    one, lost = monitor("x velocity 4.5 7.1"), good()
    lost.codes[0] = WINDOW_REASONS.index(DROP_OUT)
    fed(one, [5.0, 5.0])
    for second in range(2, 9):
        report = one.step(batch(0.0), lost, float(second), second + 1.0).report
        assert (report.limits[0].value, report.limits[0].state) == (None, "warning")


@pytest.mark.parametrize(
    ("change", "settings", "note"),
    [
        ({"sample_rate": 50.0}, {}, "no velocity: a sample rate of 50 Hz is too low for 10 to 1000 Hz"),
        ({}, {"band": (1.5, 1000.0)}, "no velocity: a batch of 1 s is too short for 1.5 Hz"),
        ({"units": ("", "Nm")}, {}, None),
        (
            {"sample_rate": 256_000.0, "units": ("g", "Nm")},
            {},
            "no velocity: a batch of 0.0039 s is too short for 10 Hz",
        ),
    ],
)
def test_a_missing_velocity_is_explained(
    change: dict[str, object], settings: dict[str, object], note: str | None
) -> None:
    about = replace(MACHINE, **change)  # type: ignore[arg-type]
    report = monitor(about=about, **settings).step(batch(3.0), good(), 0.0, 1.0).report
    assert report.note == note
    assert report.band is None
    assert report.channels[0].velocity is None
    assert report.channels[0].rms is not None
    with pytest.raises(ConfigError, match="there is no velocity"):
        monitor("x velocity 1 2", about=about, **settings)


def test_automatic_limits_follow_the_start() -> None:
    one = monitor("automatic", start_seconds=10.0)
    start = fed(one, [2.0] * 9)
    assert all(not found.report.limits for found in start)
    assert start[6].report.note is not None
    assert start[6].report.note.endswith("automatic limits follow; 60% of the start observed")
    found = fed(one, [2.0, 6.0, 6.0, 13.0, 13.0], begin=9.0)
    limited = {(one.channel, one.quantity): one for one in found[-1].report.limits}
    assert set(limited) == {("x", "rms"), ("x", "velocity"), ("torque", "rms")}
    assert limited["x", "velocity"].warning == pytest.approx(5.0, rel=1e-3)
    assert limited["x", "velocity"].alarm == pytest.approx(12.0, rel=1e-3)
    assert [found[n].report.limits[0].state for n in (0, 2, 4)] == ["normal", "warning", "alarm"]
    one.observe_start()
    assert not fed(one, [2.0], begin=14.0)[0].report.limits


def test_a_machine_at_rest_has_no_start_and_no_trend() -> None:
    one = monitor("automatic", start_seconds=5.0)
    for second in range(60):
        one.step(batch(0.01, torque=0.01), good(), float(second), second + 1.0)
    report = fed(one, [2.0], begin=60.0)[0].report
    assert report.note is not None
    assert "20% of the start observed" in report.note


def hours(one: LevelMonitor, levels: np.ndarray, step: float = 600.0) -> list[MonitoredBatch]:
    """Feed one batch per ten minutes."""
    return [one.step(batch(float(level)), good(), n * step, n * step + 1.0) for n, level in enumerate(levels)]


def test_a_rise_is_stated_with_the_time_until_the_next_limit() -> None:
    rng = np.random.default_rng(1)
    rising = 2.0 + 0.4 * np.arange(192) / 144 + rng.normal(0, 0.02, 192)
    found = hours(monitor("x velocity 4.5 7.1"), rising)
    trends = {trend.quantity: trend for trend in found[-1].report.trends}
    trend = trends["velocity"]
    assert trend.per_day == pytest.approx(0.4, rel=0.1)
    assert trend.limit == 4.5
    assert trend.seconds == pytest.approx((4.5 - 2.53) / 0.4 * 86_400, rel=0.1)
    assert trend.text in {
        f"x velocity rises {rate} mm/s per day, warning limit in about {days} days"
        for rate in ("0.38", "0.39", "0.4", "0.41", "0.42")
        for days in (5, 6)
    }
    noted = [note for one in found for note in one.notes]
    assert sorted(note.split(" rises")[0] for note in noted) == ["x RMS", "x peak", "x velocity"]


def test_levels_that_fluctuate_or_fall_have_no_trend() -> None:
    rng = np.random.default_rng(2)
    for levels in (2.0 + rng.normal(0, 0.3, 192), 4.0 - 0.01 * np.arange(192), 2.0 + 1e-4 * np.arange(192)):
        assert hours(monitor("x velocity 4.5 7.1"), levels)[-1].report.trends == ()


def test_a_far_limit_is_not_forecast() -> None:
    found = hours(monitor("x velocity 400 700"), 2.0 + 0.4 * np.arange(192) / 144)
    trend = next(one for one in found[-1].report.trends if one.quantity == "velocity")
    assert (trend.limit, trend.seconds) == (None, None)
    assert trend.text == "x velocity rises 0.4 mm/s per day"


def reports(found: list[MonitoredBatch]) -> list[LevelReport]:
    return [one.report for one in found]


def test_a_resumed_monitor_says_the_same() -> None:
    rng = np.random.default_rng(3)
    levels = 3.0 + 3.0 * np.arange(240) / 240 + rng.normal(0, 0.2, 240)
    lines = ("x velocity 4.5 7.1", "automatic")
    whole, part = (monitor(*lines, start_seconds=3600.0, duration=1200.0) for _ in range(2))
    for n, level in enumerate(levels):
        args = batch(float(level)), good(), n * 600.0, n * 600.0 + 300.0
        expected = whole.step(*args)
        assert part.step(*args) == expected
        resumed = monitor(*lines, start_seconds=3600.0, duration=1200.0)
        resumed.step(batch(50.0), good(), 0.0, 9e4)  # a past of its own
        resumed.load_state_dict(part.state_dict())
        part = resumed
    assert expected.report.trends
    assert {one.state for one in expected.report.limits} > {"normal"}
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor.nan_to_num(), part.state_dict()[name].nan_to_num()), name
    assert sum(tensor.numel() * tensor.element_size() for tensor in whole.state_dict().values()) < 5000


def test_limits_may_change_between_states_and_another_band_starts_afresh() -> None:
    before = monitor("x velocity 4.5 7.1")
    fed(before, [5.0, 5.0])
    tighter = monitor("x velocity 2 3")
    tighter.load_state_dict(before.state_dict())
    assert states(fed(tighter, [5.0, 5.0], begin=2.0)) == ["warning", "alarm"]
    without = monitor()
    without.load_state_dict(before.state_dict())
    assert fed(without, [5.0], begin=2.0)[0].report.limits == ()
    band = monitor("x velocity 4.5 7.1", band=(20.0, 300.0))
    band.load_state_dict(before.state_dict())
    assert states(fed(band, [5.0], begin=2.0)) == ["normal"]
    older = monitor("x velocity 4.5 7.1")
    older.load_state_dict({})
    assert states(fed(older, [5.0], begin=2.0)) == ["normal"]
