"""Charts as data for ECharts: what is drawn, and nothing else.

All times go as milliseconds since 1970, which the browser shows in the time of
the person. Axes have fixed ends and charts fixed heights, so that nothing jumps
when data come in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cgsa.live.intake.block import Block
from cgsa.service.dashboard.activity import ActivitySecond
from cgsa.service.dashboard.evidence import Evidence, Trace
from cgsa.service.dashboard.labels import display_name
from cgsa.service.dashboard.spectra import Lines, Spectrum, envelope
from cgsa.service.dashboard.theme import Palette
from cgsa.service.dashboard.timeline import DiagnosisTimeline, Interval

Options: TypeAlias = dict[str, Any]

STRIP = 12
"""Height of the strip of states, in pixels."""

DECADES = (0.1, 1000.0)
"""Distances from here to there are told apart; what lies beyond is very near or very far."""


def course_options(course: DiagnosisTimeline, classes: tuple[str, ...], look: Palette) -> Options:
    """Return a strip of the states, and the probabilities of all classes below it."""
    begin, end = _ms(course.begin), _ms(course.end)
    strip = {
        "type": "line",
        "xAxisIndex": 0,
        "yAxisIndex": 0,
        "data": [],
        "markArea": {"silent": True, "label": {"show": False}, "data": _areas(course.states(), classes, look)},
    }
    series = [strip]
    for place, name in enumerate(classes):
        line = _line(display_name(name), look.of_state(name, classes), axis=1)
        line["data"] = [[_ms(told.end), _percent(told.probabilities.get(name))] for told in course.told]
        if place == 0:
            line["markArea"] = {"silent": True, "label": {"show": False}, "data": _spans(course.alarms(), look.alarm)}
        series.append(line)
    return {
        **_base(look),
        "legend": _legend(look, [display_name(name) for name in classes]),
        "grid": [_grid(top=30, height=STRIP), _grid(top=30 + STRIP + 6)],
        "xAxis": [{**_time_axis(look, begin, end, grid=0), "show": False}, _time_axis(look, begin, end, grid=1)],
        "yAxis": [
            {"type": "value", "gridIndex": 0, "min": 0, "max": 1, "show": False},
            {**_percent_axis(look), "gridIndex": 1},
        ],
        "series": series,
    }


def coverage_options(course: DiagnosisTimeline, look: Palette) -> Options:
    """Return over time how far the verdicts can be trusted."""
    begin, end = _ms(course.begin), _ms(course.end)
    names = (("inside training", "coverage"), ("estimated right", "accuracy"), ("same as trained", "agreement"))
    colours = (look.faults[2], look.healthy, look.faults[1])
    series = []
    for (name, of), colour in zip(names, colours, strict=True):
        line = _line(name, colour)
        line["data"] = [
            [_ms(told.end), None if told.trust is None else _percent(getattr(told.trust, of))] for told in course.told
        ]
        series.append(line)
    return {
        **_base(look),
        "legend": _legend(look, [name for name, _ in names]),
        "grid": _grid(top=30),
        "xAxis": _time_axis(look, begin, end),
        "yAxis": _percent_axis(look),
        "series": series,
    }


def trace_options(evidence: Evidence, trace: Trace, look: Palette) -> Options:
    """Return one figure of the newest windows, with what training saw of it and which windows were learnt from."""
    times = [_ms(time) for time in evidence.time.tolist()]
    low, high = trace.usual
    line = _line(trace.name, look.faults[2])
    values = np.clip(trace.values, *DECADES) if trace.decades else trace.values
    line["data"] = _points(times, values.tolist())
    if low is not None and high is not None:
        line["markArea"] = _band(low, high, look.usual)
    elif high is not None:
        line["markLine"] = _limit(high, "training reached up to here", look)
    mean = _line("mean of the queue", look.faults[1], dashed=True)
    mean["data"] = [] if trace.mean is None else _points(times, trace.mean.tolist())
    taken = {
        "name": "learnt from",
        "type": "scatter",
        "symbolSize": 5,
        "itemStyle": {"color": look.marked},
        "data": [
            point
            for point, accepted in zip(
                line["data"], evidence.accepted if evidence.accepted is not None else (), strict=False
            )
            if accepted
        ],
        "animation": False,
    }
    names = [trace.name, *(["mean of the queue"] if trace.mean is not None else []), "learnt from"]
    return {
        **_base(look),
        "legend": _legend(look, names),
        "grid": _grid(top=30),
        "xAxis": _time_axis(look, times[0] if times else 0, times[-1] if times else 1),
        "yAxis": _decades_axis(look, trace) if trace.decades else {**_value_axis(look, ""), "scale": True},
        "series": [line, mean, taken],
    }


def wave_options(block: Block, channel: int, unit: str, look: Palette) -> Options:
    """Return the newest samples of a channel."""
    places, values = envelope(block.samples[channel])
    line = _line(block.channels[channel], look.faults[2], width=1.0)
    line["data"] = _points((1000 * places / block.sample_rate).tolist(), values.tolist())
    return {
        **_base(look),
        "grid": _grid(top=24, bottom=40),
        "xAxis": _number_axis(look, "ms", low=0, high=_rounded(1000 * block.seconds)),
        "yAxis": {**_value_axis(look, unit), "scale": True},
        "series": [line],
    }


def spectrum_options(seen: Spectrum, channel: int, unit: str, lines: Lines, look: Palette) -> Options:
    """Return the spectrum of a channel on a logarithmic scale, with the lines to look for."""
    highest = float(seen.frequency[-1])
    # A logarithm has no zero; far below the largest line there is nothing to be seen.
    floor = max(1e-12, 1e-4 * float(seen.amplitude[channel].max(initial=0.0)))
    line = _line("amplitude", look.faults[2], width=1.2)
    line["data"] = [
        [_rounded(frequency), _rounded(max(amplitude, floor))]
        for frequency, amplitude in zip(seen.frequency.tolist(), seen.amplitude[channel].tolist(), strict=True)
    ]
    line["markLine"] = {
        "silent": True,
        "symbol": "none",
        "animation": False,
        "lineStyle": {"color": look.faults[0], "type": "dashed", "width": 1},
        "label": {"color": look.faults[0], "fontSize": 11, "position": "end", "rotate": 0},
        "data": [
            {"xAxis": _rounded(frequency), "label": {"formatter": name}}
            for frequency, name in lines.frequencies(highest)
        ],
    }
    return {
        **_base(look),
        "grid": _grid(top=24, bottom=40),
        "xAxis": _number_axis(look, "Hz", low=0, high=_rounded(highest)),
        "yAxis": {**_value_axis(look, unit), "type": "log", "logBase": 10},
        "series": [line],
    }


def spark(beats: Sequence[ActivitySecond], now: float, seconds: float) -> str:
    """Return a small picture of the probability of a fault, the time of alarms shaded; for people who see it.

    It is made of numbers alone, so there is nothing in it that would have to be escaped.
    """
    width, height = 100.0, 30.0
    begin = now - seconds
    shown = [beat for beat in beats if beat.time >= begin]
    pieces: list[list[str]] = [[]]
    shades = []
    for place, beat in enumerate(shown):
        following = shown[place + 1] if place + 1 < len(shown) else None
        x = width * (beat.time - begin) / seconds
        if beat.alarm:
            until = width if following is None else width * (following.time - begin) / seconds
            shades.append(
                f'<rect class="alarm" x="{x:.1f}" y="0" width="{max(0.0, until - x):.1f}" height="{height:g}"/>'
            )
        if beat.fault is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{x:.1f},{1 + (height - 2) * (1 - beat.fault):.1f}")
    curves = "".join(f'<polyline class="course" points="{" ".join(piece)}"/>' for piece in pieces if piece)
    floor = f'<line class="floor" x1="0" y1="{height - 0.5}" x2="{width:g}" y2="{height - 0.5}"/>'
    box = f'viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" aria-hidden="true"'
    return f"<svg {box}>{floor}{''.join(shades)}{curves}</svg>"


def _base(look: Palette) -> Options:
    return {
        "animation": False,
        "textStyle": {"fontFamily": "system-ui, sans-serif", "color": look.text},
        "tooltip": _tooltip(),
    }


def _tooltip() -> Options:
    return {"trigger": "axis", "confine": True, "transitionDuration": 0, "textStyle": {"fontSize": 12}}


def _legend(look: Palette, names: list[str]) -> Options:
    return {
        "type": "scroll",
        "top": 0,
        "left": 0,
        "icon": "roundRect",
        "itemWidth": 12,
        "itemHeight": 4,
        "textStyle": {"color": look.text, "fontSize": 12},
        "data": names,
    }


def _grid(*, top: int, bottom: int = 24, height: int | None = None) -> Options:
    grid: Options = {"left": 48, "right": 14, "top": top}
    return {**grid, "bottom": bottom} if height is None else {**grid, "height": height}


def _time_axis(look: Palette, begin: float, end: float, grid: int = 0) -> Options:
    return {
        "type": "time",
        "gridIndex": grid,
        "min": begin,
        "max": end,
        "axisLabel": {"color": look.text, "fontSize": 11, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": look.line}},
        "axisTick": {"lineStyle": {"color": look.line}},
        "splitLine": {"show": False},
    }


def _number_axis(look: Palette, name: str, low: float | None, high: float | None) -> Options:
    return {
        "type": "value",
        "name": name,
        "nameLocation": "middle",
        "nameGap": 24,
        "nameTextStyle": {"color": look.text},
        "min": low,
        "max": high,
        "axisLabel": {"color": look.text, "fontSize": 11, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": look.line}},
        "splitLine": {"show": False},
    }


def _value_axis(look: Palette, name: str, low: float | None = None, high: float | None = None) -> Options:
    return {
        "type": "value",
        "name": name,
        "nameTextStyle": {"color": look.text, "align": "right"},
        "min": low,
        "max": high,
        "axisLabel": {"color": look.text, "fontSize": 11},
        "splitLine": {"lineStyle": {"color": look.line}},
    }


def _percent_axis(look: Palette) -> Options:
    axis = _value_axis(look, "", low=0, high=100)
    return {**axis, "interval": 25, "axisLabel": {**axis["axisLabel"], "formatter": "{value} %"}}


def _line(name: str, colour: str, axis: int = 0, *, width: float = 1.6, dashed: bool = False) -> Options:
    return {
        "name": name,
        "type": "line",
        "xAxisIndex": axis,
        "yAxisIndex": axis,
        "showSymbol": False,
        "animation": False,
        "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "width": width, "type": "dashed" if dashed else "solid"},
        "data": [],
    }


def _areas(states: Iterable[Interval], classes: tuple[str, ...], look: Palette) -> list[list[Options]]:
    return [
        [
            {"xAxis": _ms(one.begin), "itemStyle": {"color": look.of_state(one.what, classes), "opacity": 0.85}},
            {"xAxis": _ms(one.end)},
        ]
        for one in states
    ]


def _spans(alarms: Iterable[Interval], colour: str) -> list[list[Options]]:
    return [[{"xAxis": _ms(one.begin), "itemStyle": {"color": colour}}, {"xAxis": _ms(one.end)}] for one in alarms]


def _band(low: float, high: float, colour: str) -> Options:
    return {"silent": True, "data": [[{"yAxis": low, "itemStyle": {"color": colour}}, {"yAxis": high}]]}


def _limit(value: float, name: str, look: Palette) -> Options:
    return {
        "silent": True,
        "symbol": "none",
        "animation": False,
        "lineStyle": {"color": look.faults[0], "type": "dashed", "width": 1},
        "label": {"formatter": name, "color": look.text, "fontSize": 11, "position": "insideEndTop"},
        "data": [{"yAxis": _rounded(value)}],
    }


def _decades_axis(look: Palette, trace: Trace) -> Options:
    """Return an axis of whole decades that holds the limit and, as far as they tell anything, all values."""
    known = [value for value in trace.values.tolist() if math.isfinite(value)]
    highest = max([2.0, *(2 * limit for limit in trace.usual if limit is not None), *known])
    end = min(DECADES[1], 10 ** math.ceil(math.log10(highest)))
    return {**_value_axis(look, "", low=DECADES[0], high=end), "type": "log", "logBase": 10}


def _points(times: Sequence[float], values: Sequence[float]) -> list[list[float | None]]:
    return [[_rounded(time, 13), _rounded(value)] for time, value in zip(times, values, strict=True)]


def _ms(seconds: float) -> float:
    return round(1000 * seconds)


def _percent(share: float | None) -> float | None:
    return None if share is None else _rounded(100 * share, 3)


def _rounded(value: float | None, digits: int = 4) -> float | None:
    """Return a number as short as a chart can show it; what is no number is a gap."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None
