from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cgsa.events import NO_DATA
from cgsa.live.intake.block import Block
from cgsa.service.dashboard.activity import ActivitySecond
from cgsa.service.dashboard.chart_parts import Options
from cgsa.service.dashboard.charts import (
    sparkline,
    spectrum_options,
    timeline_options,
    trace_options,
    trust_options,
    waveform_options,
)
from cgsa.service.dashboard.evidence import Evidence, Trace
from cgsa.service.dashboard.spectra import OrderLines, amplitude_spectrum, squared_amplitudes
from cgsa.service.dashboard.theme import DARK, LIGHT, Palette
from cgsa.service.dashboard.timeline import DiagnosisTimeline
from tests.machines import CLASSES
from tests.service.dashboard.examples import CASE, diagnosis

TIMELINE = DiagnosisTimeline(
    0.0,
    10.0,
    tuple(
        diagnosis(number, state=NO_DATA if number == 3 else "wear" if number > 5 else "health") for number in range(8)
    ),
    thinned=False,
    cases=(replace(CASE, opened=6.0),),
)
EVIDENCE = Evidence(windows=3, seconds=0.2, time=np.array([1.0, 1.1, 1.2]), accepted=np.array([True, False, True]))


def checked(options: Options) -> Any:
    """Return the options as a browser gets them: as strict JSON, without NaN."""
    return json.loads(json.dumps(options, allow_nan=False))


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_the_timeline_shows_each_class_the_states_and_the_alarms(palette: Palette) -> None:
    strip, health, wear, crack = checked(timeline_options(TIMELINE, CLASSES, palette))["series"]
    areas = [[corner["xAxis"] for corner in area] for area in strip["markArea"]["data"]]
    assert areas == [[0, 3000], [3000, 4000], [4000, 6000], [6000, 8000]]
    assert [line["name"] for line in (health, wear, crack)] == list(CLASSES)
    assert health["data"][:4] == [[1000, 90.0], [2000, 90.0], [3000, 90.0], [4000, None]]
    assert [corner["xAxis"] for corner in health["markArea"]["data"][0]] == [6000, 10_000]


def test_axes_end_where_the_timeline_does_whatever_arrives() -> None:
    options = checked(timeline_options(TIMELINE, CLASSES, LIGHT))
    assert [(axis["min"], axis["max"]) for axis in options["xAxis"]] == [(0, 10_000)] * 2
    assert checked(trust_options(TIMELINE, LIGHT))["xAxis"]["max"] == 10_000


def test_trust_has_gaps_where_all_windows_were_rejected() -> None:
    coverage, accuracy, agreement = checked(trust_options(TIMELINE, LIGHT))["series"]
    assert coverage["data"][2:4] == [[3000, 90.0], [4000, None]]
    assert accuracy["data"][0] == [1000, 95.0]
    assert agreement["data"][0] == [1000, 100.0]


def test_windows_used_for_learning_are_marked() -> None:
    trace = Trace("residual response", np.array([0.1, math.nan, 0.3]), np.array([math.nan, 0.2, 0.2]), (0.0, 0.5))
    line, mean, learnt = checked(trace_options(EVIDENCE, trace, LIGHT))["series"]
    assert line["data"] == [[1000, 0.1], [1100, None], [1200, 0.3]]
    assert mean["data"][0] == [1000, None]
    assert learnt["data"] == [[1000, 0.1], [1200, 0.3]]
    assert [corner["yAxis"] for corner in line["markArea"]["data"][0]] == [0.0, 0.5]


@pytest.mark.parametrize(("highest", "end"), [(1.0, 10), (9.0, 10), (11.0, 100), (5e6, 1000)])
def test_the_axis_of_a_distance_includes_its_limit(highest: float, end: float) -> None:
    trace = Trace("distance", np.array([0.0, math.nan, highest]), training_range=(None, 4.0), logarithmic=True)
    options = checked(trace_options(EVIDENCE, trace, LIGHT))
    assert options["series"][0]["markLine"]["data"] == [{"yAxis": 4.0}]
    assert (options["yAxis"]["type"], options["yAxis"]["min"], options["yAxis"]["max"]) == ("log", 0.1, end)
    assert [value for _, value in options["series"][0]["data"]] == [0.1, None, min(highest, 1000.0)]


def test_a_trace_without_values_is_an_empty_chart() -> None:
    assert checked(trace_options(Evidence(), Trace("distance", np.empty(0)), LIGHT))["series"][0]["data"] == []


def test_signal_and_its_spectrum() -> None:
    samples = np.random.default_rng(0).standard_normal((2, 2000)).astype(np.float32)
    block = Block("m", 0, 0.0, 1000.0, ("a", "b"), samples)
    wave = checked(waveform_options(block, 1, "g", LIGHT))
    assert wave["xAxis"]["max"] == 2000.0
    assert max(value for _, value in wave["series"][0]["data"]) == pytest.approx(samples[1].max(), rel=1e-3)
    spectrum = amplitude_spectrum(squared_amplitudes(samples), 1000.0, 2000)
    options = checked(spectrum_options(spectrum, 0, "g", OrderLines(6000.0, (1.0,), 9), LIGHT))
    assert [line["xAxis"] for line in options["series"][0]["markLine"]["data"]] == [100.0, 200.0, 300.0, 400.0, 500.0]


def test_the_spectrum_of_a_zero_signal_can_be_drawn() -> None:
    spectrum = amplitude_spectrum(squared_amplitudes(np.zeros((1, 64), np.float32)), 1000.0, 64)
    points = checked(spectrum_options(spectrum, 0, "g", OrderLines(), LIGHT))["series"][0]["data"]
    assert all(value > 0 for _, value in points)


def test_a_sparkline_has_gaps_without_data_and_shades_alarms() -> None:
    history = [
        ActivitySecond(0, 0.9, alarm=False),
        ActivitySecond(10, 0.0, alarm=False),
        ActivitySecond(20, None, alarm=False),
        ActivitySecond(30, 1.0, alarm=True),
    ]
    svg = sparkline(history, now=40.0, seconds=30.0)
    assert svg.count("<polyline") == 2
    assert 'points="0.0,29.0"' in svg
    assert '<rect class="alarm" x="66.7" y="0" width="33.3"' in svg
    assert "<polyline" not in sparkline([], now=0.0, seconds=30.0)
