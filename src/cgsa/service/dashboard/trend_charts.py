"""Options of the charts with trends, and with a spectrum beside its healthy signal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import numpy as np

from cgsa.explain.spectra import DoubleArray
from cgsa.service.dashboard.chart_parts import (
    Options,
    base_options,
    line_series,
    mark_lines,
    number_axis,
    rounded,
    time_axis,
    value_axis,
)
from cgsa.service.dashboard.labels import format_time
from cgsa.service.dashboard.theme import Palette
from cgsa.service.trends.comparison import ComparedSpectrum
from cgsa.service.trends.history import Trends
from cgsa.service.trends.levels import band_names

WATERFALL_TIMES, WATERFALL_LINES = 120, 64
"""Cells of a waterfall; more are slow to draw on a phone."""
DYNAMIC_RANGE = 60.0
"""Decibels below the strongest cell that have a colour of their own."""
MAX_STEPS = 600
"""Points of a trend."""
MAX_MARKS = 40
"""Fault lines in a spectrum; more are not readable."""
LABEL_SHARE = 0.25
"""Share of the frequencies from one name of a line to the next, so that names do not overlap."""


def health_options(trends: Trends, span: tuple[float, float], palette: Palette) -> Options:
    """Return the health score over time."""
    line = line_series("health score", palette.healthy, _points(trends, trends.health))
    return _trend_options([line], ["health score"], span, palette, low=0.0, high=100.0)


def quantity_options(
    trends: Trends, quantity: int, names: Sequence[str], span: tuple[float, float], palette: Palette
) -> Options:
    """Return RMS (0) or kurtosis (1) of all channels, with these names, over time."""
    colours = palette.faults
    lines = [
        line_series(name, colours[place % len(colours)], _points(trends, trends.values[:, place, quantity].tolist()))
        for place, name in enumerate(names)
    ]
    return _trend_options(lines, list(names), span, palette, low=0.0)


def band_options(trends: Trends, channel: int, span: tuple[float, float], palette: Palette) -> Options:
    """Return the levels of the bands of one channel over time, on a logarithmic scale."""
    names = band_names(trends.sample_rate, trends.values.shape[2] - 2)
    colours = (*palette.faults, palette.healthy, palette.unknown, palette.no_data)
    lines = []
    for number, name in enumerate(names):
        values = [value if value > 0 else None for value in trends.values[:, channel, 2 + number].tolist()]
        lines.append(line_series(name, colours[number % len(colours)], _points(trends, values)))
    options = _trend_options(lines, names, span, palette)
    return {**options, "yAxis": {**options["yAxis"], "type": "log", "logBase": 10}}


def waterfall_options(trends: Trends, channel: int, zone: tzinfo, palette: Palette) -> Options:
    """Return the spectra of one channel over time, as colours."""
    times, cells = waterfall_cells(trends, channel)
    lines = cells.shape[1] if cells.size else WATERFALL_LINES
    step = trends.sample_rate / 2 / lines
    known = cells[np.isfinite(cells)]
    highest = float(known.max(initial=-DYNAMIC_RANGE)) if known.size else 0.0
    lowest = max(highest - DYNAMIC_RANGE, float(known.min(initial=highest)))
    data = [
        [column, line, rounded(float(cells[column, line]), 4)]
        for column in range(len(times))
        for line in range(lines)
        if np.isfinite(cells[column, line])
    ]
    label = {"color": palette.text, "fontSize": 11, "hideOverlap": True}
    axis = {"type": "category", "axisLabel": label, "axisTick": {"show": False}, "splitLine": {"show": False}}
    return {
        **base_options(palette),
        "tooltip": {"show": False},
        "grid": {"left": 48, "right": 14, "top": 30, "bottom": 56},
        "xAxis": {**axis, "data": [format_time(time, zone, times[-1]) for time in times]},
        "yAxis": {
            **axis,
            "axisLabel": {**label, "interval": max(0, lines // 4 - 1)},
            "data": [f"{line * step:.0f}" for line in range(lines)],
            "name": "Hz",
            "nameTextStyle": {"color": palette.text, "align": "right"},
        },
        "visualMap": {
            "type": "continuous",
            "min": rounded(lowest),
            "max": rounded(highest),
            "orient": "horizontal",
            "left": "center",
            "bottom": 0,
            "itemHeight": 160,
            "itemWidth": 12,
            "precision": 0,
            "text": ["dB", ""],
            "textStyle": {"color": palette.text, "fontSize": 11},
            "inRange": {"color": ["#1b1464", "#3b528b", "#21918c", "#5ec962", "#fde725"]},
        },
        "series": [{"type": "heatmap", "data": data, "animation": False, "silent": True}],
    }


def waterfall_cells(trends: Trends, channel: int) -> tuple[list[float], DoubleArray]:
    """Return times and decibels, (times, lines), of one channel, merged to few cells; the largest is kept."""
    if not trends.channels or not trends.times:
        return [], np.empty((0, 0))
    cells = trends.decibels[:, channel]
    keep = -(-len(cells) // WATERFALL_TIMES)
    starts = np.arange(0, len(cells), keep)
    lines = np.arange(0, cells.shape[1], -(-cells.shape[1] // WATERFALL_LINES))
    merged = np.fmax.reduceat(np.fmax.reduceat(cells, starts, axis=0), lines, axis=1)
    return [trends.times[start] for start in starts.tolist()], np.asarray(merged)


def compared_options(
    spectrum: ComparedSpectrum, unit: str, marks: Sequence[tuple[float, str]], palette: Palette
) -> Options:
    """Return a spectrum over that of the healthy machine, on a logarithmic scale, with fault lines."""
    highest = float(spectrum.frequency[-1])
    floor = max(1e-12, 1e-4 * float(spectrum.now.max(initial=0.0)))
    now = line_series("now", palette.faults[2], _curve(spectrum, spectrum.now, floor), width=1.2)
    series, names = [now], ["now"]
    if spectrum.healthy is not None:
        usual = line_series("healthy", palette.healthy, _curve(spectrum, spectrum.healthy, floor), width=1.2)
        usual["areaStyle"] = {"color": palette.healthy, "opacity": 0.12, "origin": "start"}
        series, names = [usual, now], ["healthy", "now"]
    shown = [one for one in marks if one[0] <= highest][:MAX_MARKS]
    lines: list[Options] = []
    labelled = -highest
    for at, name in sorted(shown):
        apart = at - labelled >= LABEL_SHARE * highest
        labelled = at if apart else labelled
        lines.append({"xAxis": rounded(at), "label": {"formatter": name if apart else ""}})
    label = {"color": palette.faults[0], "fontSize": 11, "position": "end", "rotate": 0}
    now["markLine"] = mark_lines(lines, label, palette)
    return {
        **base_options(palette, names),
        "grid": {"left": 56, "right": 14, "top": 46, "bottom": 40},
        "xAxis": number_axis(palette, "Hz", highest),
        "yAxis": {**value_axis(palette, unit), "type": "log", "logBase": 10},
        "series": series,
    }


def _curve(spectrum: ComparedSpectrum, values: DoubleArray, floor: float) -> list[list[float | None]]:
    pairs = zip(spectrum.frequency.tolist(), values.tolist(), strict=True)
    return [[rounded(frequency), rounded(max(value, floor))] for frequency, value in pairs]


def _points(trends: Trends, values: Sequence[float | None]) -> list[list[float | None]]:
    """Return the points of a trend, thinned; a gap in time breaks the line."""
    found: list[list[float | None]] = []
    keep = max(1, -(-len(values) // MAX_STEPS))
    last: float | None = None
    for time, value in list(zip(trends.times, values, strict=True))[::keep]:
        if last is not None and time - last > 3 * keep * trends.seconds:
            found.append([1000 * (last + trends.seconds), None])
        found.append([1000 * time, rounded(value)])
        last = time
    return found


def _trend_options(
    lines: list[Options],
    names: list[str],
    span: tuple[float, float],
    palette: Palette,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Options:
    # A trend of a few steps is a few points.
    series = [{**line, "showSymbol": len(line["data"]) < 30, "symbolSize": 4} for line in lines]
    return {
        **base_options(palette, names),
        "grid": {"left": 56, "right": 14, "top": 34, "bottom": 24},
        "xAxis": time_axis(palette, 1000 * span[0], 1000 * span[1]),
        "yAxis": {**value_axis(palette, ""), "min": low, "max": high, "scale": low is None},
        "series": series,
    }
