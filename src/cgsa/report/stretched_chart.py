"""Charts of a stream that stretch to the width of the page: shapes in shares of time and height, text beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cgsa.metrics.accuracy import BoolArray, DoubleArray, IntArray

WIDTH, HEIGHT = 1000, 100
"""Units of a drawing; it is stretched, so they say nothing about its shape."""


@dataclass(frozen=True)
class StateInterval:
    """An interval of a stream in which nothing changes."""

    left: float
    """Begin in percent of the stream."""
    width: float
    """Length in percent of the stream."""
    seconds: tuple[float, float]
    state: int
    wrong: bool


def state_intervals(time: DoubleArray, state: IntArray, wrong: BoolArray) -> list[StateInterval]:
    """Return the intervals of a state that is given at the ends of equal steps."""
    step = float(time[0])
    changed = (np.diff(state) != 0) | (np.diff(wrong.astype(np.int8)) != 0)
    borders = [0, *(np.flatnonzero(changed) + 1).tolist(), len(state)]
    share = 100 / len(state)
    return [
        StateInterval(
            begin * share, (end - begin) * share, (begin * step, end * step), int(state[begin]), bool(wrong[begin])
        )
        for begin, end in pairwise(borders)
    ]


@dataclass(frozen=True)
class Layer:
    """A shape of a chart."""

    kind: str
    """Class of the style sheet, such as ``line``, ``dots`` or ``area``."""
    path: str
    name: str = ""
    """Its entry in the legend; empty for none."""


@dataclass(frozen=True)
class StretchedChart:
    """Layers above each other, the values of the axis with their heights in percent, and a description."""

    label: str
    layers: tuple[Layer, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Scale:
    """Maps times and values to the units of a drawing."""

    seconds: float
    low: float
    high: float

    def points(self, time: npt.NDArray[np.floating], values: npt.NDArray[np.floating]) -> list[tuple[str, str]]:
        """Return coordinates as text; values beyond the scale are drawn at its edge, unknown ones are left out."""
        known = ~np.isnan(values)
        x = time[known] / self.seconds * WIDTH
        y = HEIGHT * (1 - (np.clip(values[known], self.low, self.high) - self.low) / (self.high - self.low))
        return [(f"{a:.1f}", f"{b:.1f}") for a, b in zip(x.tolist(), y.tolist(), strict=True)]

    def line(self, time: npt.NDArray[np.floating], values: npt.NDArray[np.floating]) -> str:
        """Return a path along the values."""
        return "M" + "L".join(f"{x} {y}" for x, y in self.points(time, values))

    def dots(self, time: npt.NDArray[np.floating], values: npt.NDArray[np.floating]) -> str:
        """Return a path with a dot at each value: a stroke without length and with round ends stays round."""
        return "".join(f"M{x} {y}h0" for x, y in self.points(time, values))

    def band(self, low: float, high: float) -> str:
        """Return the area between two values, over the whole time."""
        [(_, top), (_, bottom)] = self.points(np.zeros(2), np.array([high, low]))
        return f"M0 {top}H{WIDTH}V{bottom}H0z"

    def ticks(self, values: Sequence[float], unit: str = "") -> tuple[tuple[float, str], ...]:
        """Return the heights in percent of values on the axis, with their text."""
        heights = self.points(np.zeros(len(values)), np.asarray(values, dtype=np.float64))
        return tuple((float(y), f"{value:g}{unit}") for (_, y), value in zip(heights, values, strict=True))


def stacked_shares(shares: npt.NDArray[np.floating]) -> list[str]:
    """Return one path per class for shares, (intervals, classes), stacked from the bottom; NaN leaves a gap."""
    step = WIDTH / len(shares)
    # A little wider than an interval, so that no gap shows between neighbours.
    width, tops = step + 0.3, HEIGHT * (1 - np.cumsum(shares, axis=1))
    return [
        "".join(
            f"M{row * step:.2f} {tops[row, place]:.1f}h{width:.2f}v{HEIGHT * share:.1f}h-{width:.2f}z"
            for row, share in enumerate(shares[:, place].tolist())
            if share > 0
        )
        for place in range(shares.shape[1])
    ]


def shares_per_interval(
    time: DoubleArray, values: IntArray, classes: int, seconds: float, count: int
) -> npt.NDArray[np.float64]:
    """Return the share of every class in equal intervals of a stream; NaN where there is no value."""
    place = np.clip((time / seconds * count - 1e-9).astype(np.int64), 0, count - 1)
    found = np.zeros((count, classes))
    np.add.at(found, (place, values), 1.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def mean_per_interval(
    time: DoubleArray, values: npt.NDArray[np.generic], seconds: float, count: int
) -> npt.NDArray[np.float64]:
    """Return the mean in equal intervals of a stream; NaN where there is no value."""
    place = np.clip((time / seconds * count - 1e-9).astype(np.int64), 0, count - 1)
    total = np.bincount(place, weights=values.astype(np.float64), minlength=count)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.bincount(place, minlength=count))
