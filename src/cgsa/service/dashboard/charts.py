"""Options of the ECharts charts, and sparklines.

Times are milliseconds since 1970, which the browser shows in its time zone. Axes have fixed ends and charts fixed
heights, so that nothing moves when data arrive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from cgsa.live.intake.block import Block
from cgsa.report.decimation import min_max_indices
from cgsa.service.dashboard.activity import ActivitySecond
from cgsa.service.dashboard.chart_parts import (
    Options,
    Points,
    base_options,
    line_series,
    mark_lines,
    number_axis,
    rounded,
    time_axis,
    value_axis,
)
from cgsa.service.dashboard.evidence import Evidence, Trace
from cgsa.service.dashboard.labels import display_name
from cgsa.service.dashboard.spectra import MAX_POINTS, OrderLines, Spectrum
from cgsa.service.dashboard.theme import Palette
from cgsa.service.dashboard.timeline import DiagnosisTimeline, Interval

STRIP = 12
"""Height of the strip of states, in pixels."""

DISTANCE_RANGE = (0.1, 1000.0)
"""Distances beyond this range are drawn at its ends."""


def timeline_options(timeline: DiagnosisTimeline, classes: tuple[str, ...], palette: Palette) -> Options:
    """Return a strip with the states, above the probabilities of all classes."""
    begin, end = _ms(timeline.begin), _ms(timeline.end)
    areas = _areas(
        (one, {"color": palette.state_colour(one.name, classes), "opacity": 0.85}) for one in timeline.states()
    )
    series = [{"type": "line", "xAxisIndex": 0, "yAxisIndex": 0, "data": [], "markArea": areas}]
    for index, name in enumerate(classes):
        data = [[_ms(one.end), _percent(one.probabilities.get(name))] for one in timeline.diagnoses]
        line = line_series(display_name(name), palette.state_colour(name, classes), data, axis=1)
        if index == 0:
            line["markArea"] = _areas((one, {"color": palette.alarm}) for one in timeline.alarms())
        series.append(line)
    hidden = {"type": "value", "gridIndex": 0, "min": 0, "max": 1, "show": False}
    return {
        **base_options(palette, [display_name(name) for name in classes]),
        "grid": [_grid(top=30, height=STRIP), _grid(top=30 + STRIP + 6)],
        "xAxis": [{**time_axis(palette, begin, end, grid=0), "show": False}, time_axis(palette, begin, end, grid=1)],
        "yAxis": [hidden, {**_percent_axis(palette), "gridIndex": 1}],
        "series": series,
    }


def trust_options(timeline: DiagnosisTimeline, palette: Palette) -> Options:
    """Return the trust in the verdicts over time."""
    begin, end = _ms(timeline.begin), _ms(timeline.end)
    names = (("within training range", "coverage"), ("estimated accuracy", "accuracy"), ("agreement", "agreement"))
    colours = (palette.faults[2], palette.healthy, palette.faults[1])
    series = []
    for (name, attribute), colour in zip(names, colours, strict=True):
        data = [
            [_ms(one.end), None if one.trust is None else _percent(getattr(one.trust, attribute))]
            for one in timeline.diagnoses
        ]
        series.append(line_series(name, colour, data))
    return {
        **base_options(palette, [name for name, _ in names]),
        "grid": _grid(top=30),
        "xAxis": time_axis(palette, begin, end),
        "yAxis": _percent_axis(palette),
        "series": series,
    }


def trace_options(evidence: Evidence, trace: Trace, palette: Palette) -> Options:
    """Return one quantity of the newest windows, its range in training, and the windows used for learning."""
    times = [_ms(time) for time in evidence.time.tolist()]
    low, high = trace.training_range
    values = np.clip(trace.values, *DISTANCE_RANGE) if trace.logarithmic else trace.values
    line = line_series(trace.name, palette.faults[2], _points(times, values.tolist()))
    if low is not None and high is not None:
        corners = [{"yAxis": low, "itemStyle": {"color": palette.training_range}}, {"yAxis": high}]
        line["markArea"] = {"silent": True, "data": [corners]}
    elif high is not None:
        # The label is at the end of the line, on the side where the newest values are not.
        newest = values[-(len(values) // 3 + 1) :]
        side = "Bottom" if np.count_nonzero(newest > high) > len(newest) / 2 else "Top"
        label = {"formatter": trace.limit_name, "color": palette.text, "fontSize": 11, "position": f"insideEnd{side}"}
        line["markLine"] = mark_lines([{"yAxis": rounded(high)}], label, palette)
    means = [] if trace.mean is None else _points(times, trace.mean.tolist())
    mean = line_series("queue mean", palette.faults[1], means, dashed=True)
    accepted = evidence.accepted if evidence.accepted is not None else ()
    points = [point for point, chosen in zip(line["data"], accepted, strict=False) if chosen]
    style = {"type": "scatter", "symbolSize": 5, "itemStyle": {"color": palette.learnt}, "animation": False}
    learnt = {"name": "used for learning", **style, "data": points}
    names = [trace.name, *(["queue mean"] if trace.mean is not None else []), "used for learning"]
    return {
        **base_options(palette, names),
        "grid": _grid(top=30),
        "xAxis": time_axis(palette, times[0] if times else 0, times[-1] if times else 1),
        "yAxis": _distance_axis(palette, trace) if trace.logarithmic else {**value_axis(palette, ""), "scale": True},
        "series": [line, mean, learnt],
    }


def waveform_options(block: Block, channel: int, unit: str, palette: Palette) -> Options:
    """Return the newest samples of a channel."""
    samples = block.samples[channel]
    kept = min_max_indices(samples, MAX_POINTS)
    data = _points((1000 * kept / block.sample_rate).tolist(), samples[kept].tolist())
    return {
        **base_options(palette),
        "grid": _grid(top=24, bottom=40),
        "xAxis": number_axis(palette, "ms", 1000 * block.seconds),
        "yAxis": {**value_axis(palette, unit), "scale": True},
        "series": [line_series(block.channels[channel], palette.faults[2], data, width=1.0)],
    }


def spectrum_options(spectrum: Spectrum, channel: int, unit: str, lines: OrderLines, palette: Palette) -> Options:
    """Return the spectrum of a channel on a logarithmic scale, with order lines."""
    highest = float(spectrum.frequency[-1])
    # A logarithmic axis has no zero; values far below the largest line are not visible anyway.
    floor = max(1e-12, 1e-4 * float(spectrum.amplitude[channel].max(initial=0.0)))
    data = [
        [rounded(frequency), rounded(max(amplitude, floor))]
        for frequency, amplitude in zip(spectrum.frequency.tolist(), spectrum.amplitude[channel].tolist(), strict=True)
    ]
    line = line_series("amplitude", palette.faults[2], data, width=1.2)
    marks = [
        {"xAxis": rounded(frequency), "label": {"formatter": name}} for frequency, name in lines.frequencies(highest)
    ]
    label = {"color": palette.faults[0], "fontSize": 11, "position": "end", "rotate": 0}
    line["markLine"] = mark_lines(marks, label, palette)
    return {
        **base_options(palette),
        "grid": _grid(top=24, bottom=40),
        "xAxis": number_axis(palette, "Hz", highest),
        "yAxis": {**value_axis(palette, unit), "type": "log", "logBase": 10},
        "series": [line],
    }


def sparkline(history: Sequence[ActivitySecond], now: float, seconds: float) -> str:
    """Return a small SVG of the fault probability, with the periods of alarms shaded; screen readers skip it.

    It is formatted from numbers only, so there is nothing to escape.
    """
    width, height = 100.0, 30.0
    begin = now - seconds
    shown = [one for one in history if one.time >= begin]
    pieces: list[list[str]] = [[]]
    shades = []
    for one, following in zip(shown, (*shown[1:], None), strict=False):
        x = width * (one.time - begin) / seconds
        if one.alarm:
            until = width if following is None else width * (following.time - begin) / seconds
            shades.append(
                f'<rect class="alarm" x="{x:.1f}" y="0" width="{max(0.0, until - x):.1f}" height="{height:g}"/>'
            )
        if one.fault is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{x:.1f},{1 + (height - 2) * (1 - one.fault):.1f}")
    curves = "".join(f'<polyline class="curve" points="{" ".join(piece)}"/>' for piece in pieces if piece)
    floor = f'<line class="floor" x1="0" y1="{height - 0.5}" x2="{width:g}" y2="{height - 0.5}"/>'
    box = f'viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" aria-hidden="true"'
    return f"<svg {box}>{floor}{''.join(shades)}{curves}</svg>"


def _grid(*, top: int, bottom: int = 24, height: int | None = None) -> Options:
    grid: Options = {"left": 48, "right": 14, "top": top}
    return {**grid, "bottom": bottom} if height is None else {**grid, "height": height}


def _percent_axis(palette: Palette) -> Options:
    axis = value_axis(palette, "", low=0, high=100)
    return {**axis, "interval": 25, "axisLabel": {**axis["axisLabel"], "formatter": "{value} %"}}


def _areas(styles: Iterable[tuple[Interval, Options]]) -> Options:
    corners = [[{"xAxis": _ms(one.begin), "itemStyle": style}, {"xAxis": _ms(one.end)}] for one, style in styles]
    return {"silent": True, "label": {"show": False}, "data": corners}


def _distance_axis(palette: Palette, trace: Trace) -> Options:
    """Return a logarithmic axis that ends at a power of ten above the limit and all values within the range."""
    known = [value for value in trace.values.tolist() if math.isfinite(value)]
    highest = max([2.0, *(2 * limit for limit in trace.training_range if limit is not None), *known])
    end = min(DISTANCE_RANGE[1], 10 ** math.ceil(math.log10(highest)))
    return {**value_axis(palette, "", low=DISTANCE_RANGE[0], high=end), "type": "log", "logBase": 10}


def _points(times: Sequence[float], values: Sequence[float]) -> Points:
    return [[rounded(time, 13), rounded(value)] for time, value in zip(times, values, strict=True)]


def _ms(seconds: float) -> float:
    return round(1000 * seconds)


def _percent(share: float | None) -> float | None:
    return None if share is None else rounded(100 * share, 3)
