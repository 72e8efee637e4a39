"""Parts of the options of ECharts charts: axes, lines and legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from cgsa.service.dashboard.theme import Palette

Options: TypeAlias = dict[str, Any]
Points: TypeAlias = list[list[float | None]]

DASH = "path://M0 0M12 14M0 5H12V9H0Z"
"""Icon of a legend: a dash in a box as high as the text, to which a legend with several pages is cut."""


def base_options(palette: Palette, names: Sequence[str] = ()) -> Options:
    """Return what all charts share, and a legend if there are names for one."""
    base: Options = {
        "animation": False,
        "textStyle": {"fontFamily": "system-ui, sans-serif", "color": palette.text},
        "tooltip": {"trigger": "axis", "confine": True, "transitionDuration": 0, "textStyle": {"fontSize": 12}},
    }
    legend = {"type": "scroll", "top": 0, "left": 0, "icon": DASH, "itemWidth": 12, "itemHeight": 14}
    style = {"textStyle": {"color": palette.text, "fontSize": 12}}
    return {**base, "legend": {**legend, **style, "data": list(names)}} if names else base


def time_axis(palette: Palette, begin: float, end: float, grid: int = 0) -> Options:
    """Return an axis of times in milliseconds since 1970."""
    line = {"lineStyle": {"color": palette.line}}
    label = {"color": palette.text, "fontSize": 11, "hideOverlap": True}
    style = {"axisLabel": label, "axisLine": line, "axisTick": line, "splitLine": {"show": False}}
    return {"type": "time", "gridIndex": grid, "min": begin, "max": end, **style}


def number_axis(palette: Palette, unit: str, end: float) -> Options:
    """Return an axis from 0 with a unit."""
    name = {"name": unit, "nameLocation": "middle", "nameGap": 24, "nameTextStyle": {"color": palette.text}}
    return {**time_axis(palette, 0, end), "type": "value", "max": rounded(end), **name}


def value_axis(palette: Palette, name: str, low: float | None = None, high: float | None = None) -> Options:
    """Return a vertical axis."""
    return {
        "type": "value",
        "name": name,
        "nameTextStyle": {"color": palette.text, "align": "right"},
        "min": low,
        "max": high,
        "axisLabel": {"color": palette.text, "fontSize": 11},
        "splitLine": {"lineStyle": {"color": palette.line}},
    }


def line_series(
    name: str, colour: str, data: Points, *, axis: int = 0, width: float = 1.6, dashed: bool = False
) -> Options:
    """Return a line, in the chart's axes of this number."""
    line = {"type": "line", "xAxisIndex": axis, "yAxisIndex": axis, "showSymbol": False, "animation": False}
    style = {"color": colour, "width": width, "type": "dashed" if dashed else "solid"}
    return {"name": name, **line, "itemStyle": {"color": colour}, "lineStyle": style, "data": data}


def mark_lines(data: list[Options], label: Options, palette: Palette) -> Options:
    """Return dashed lines across a chart, with a label each."""
    style = {"color": palette.faults[0], "type": "dashed", "width": 1}
    return {"silent": True, "symbol": "none", "animation": False, "lineStyle": style, "label": label, "data": data}


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Return a number with as many digits as a chart can show; None, which is a gap, if it is not finite."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None
