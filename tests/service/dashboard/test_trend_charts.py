from __future__ import annotations

from datetime import UTC

import numpy as np
import pytest

from cgsa.service.dashboard.theme import DARK, LIGHT
from cgsa.service.dashboard.trend_charts import (
    MAX_STEPS,
    WATERFALL_LINES,
    WATERFALL_TIMES,
    band_options,
    compared_options,
    health_options,
    quantity_options,
    waterfall_cells,
    waterfall_options,
)
from cgsa.service.trends.comparison import ComparedSpectrum
from cgsa.service.trends.history import Trends


def trends(steps: int) -> Trends:
    rng = np.random.default_rng(0)
    times = tuple(60.0 * number + (600.0 if number >= 5 else 0.0) for number in range(steps))
    values = rng.random((steps, 2, 10)) + 0.5
    return Trends(60, times, (90.0,) * steps, ("a", "b"), 12_800.0, values, rng.random((steps, 2, 128)))


def test_a_gap_in_time_breaks_the_line() -> None:
    points = health_options(trends(10), (0.0, 2000.0), LIGHT)["series"][0]["data"]
    assert points[4] == [240_000.0, 90.0]
    assert points[5] == [300_000.0, None]
    assert points[6] == [900_000.0, 90.0]


def test_long_trends_are_thinned_and_bands_have_names() -> None:
    many = trends(3000)
    lines = band_options(many, 1, (0.0, 2e5), DARK)["series"]
    assert [one["name"] for one in lines][:2] == ["0 to 50 Hz", "50 to 100 Hz"]
    assert all(len(one["data"]) <= MAX_STEPS + 2 for one in lines)
    named = quantity_options(many, 0, ("a, g", "b, g"), (0.0, 2e5), DARK)
    assert named["legend"]["data"] == ["a, g", "b, g"]
    assert named["yAxis"]["min"] == 0.0


@pytest.mark.parametrize("steps", [0, 1, 7, 500])
def test_a_waterfall_has_few_cells_and_keeps_the_largest(steps: int) -> None:
    found = trends(steps)
    times, cells = waterfall_cells(found, 0)
    assert len(times) == len(cells) <= WATERFALL_TIMES
    options = waterfall_options(found, 0, UTC, LIGHT)
    assert len(options["series"][0]["data"]) == len(times) * WATERFALL_LINES
    if steps:
        assert cells.max() == found.decibels[:, 0].max()


def test_missing_steps_leave_holes_in_a_waterfall() -> None:
    found = trends(3)
    found.decibels[1] = np.nan
    assert len(waterfall_options(found, 0, UTC, LIGHT)["series"][0]["data"]) == 2 * WATERFALL_LINES


def test_fault_lines_beyond_the_spectrum_are_left_out() -> None:
    frequency = np.linspace(0, 100, 50)
    spectrum = ComparedSpectrum(frequency, np.ones(50), 2 * np.ones(50))
    options = compared_options(spectrum, "g", [(20.0, "shaft"), (200.0, "too high")], LIGHT)
    healthy, now = options["series"]
    assert (healthy["name"], now["name"]) == ("healthy", "now")
    assert [one["xAxis"] for one in now["markLine"]["data"]] == [20.0]
    alone = compared_options(ComparedSpectrum(frequency, np.ones(50), None), "g", [], LIGHT)
    assert [one["name"] for one in alone["series"]] == ["now"]
