"""Sample rates from time columns: steady clocks, jitter, gaps and clocks that fall back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

TIME_NAME = re.compile(
    r"(?:t|time|zeit|temps|tiempo|date|datum|timestamp|time ?stamp|datetime|date ?time|uhrzeit)", re.IGNORECASE
)
"""A whole name of a time column, without its unit."""
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0}
"""Seconds per unit of a time column."""
SLOWEST_ASSUMED = 100.0
"""Hz; a time column without a unit is one of seconds if that makes it at least so fast."""
GAP_STEPS = 1.5
"""A step longer than so many usual ones is a gap."""
JITTER = 0.02
"""Share of a step by which steps may differ without a note."""
STEADY = 0.1
"""Share of a step by which the steps of a column without a name may differ if it is a clock."""


class Clock:
    """The statistics of a time column, block by block."""

    def __init__(self, name: str, unit: str | None) -> None:
        self.name = name
        self.unit = unit
        """A key of :data:`TIME_UNITS`; None if the file states none."""
        self.rows = 0
        self.step = 0.0
        """The usual step: the median over the first block."""
        self._sum = 0.0
        self._steady = 0
        self._spread = 0.0
        self._gaps: list[int] = []
        self._falls: list[int] = []
        self._bad: list[int] = []
        self._last: float | None = None
        self._first: float | None = None

    def add(self, times: npt.NDArray[np.floating[Any]]) -> None:
        """Add the next values of the column."""
        values = np.asarray(times, np.float64)
        if not values.size:
            return
        self._bad += [self.rows + int(place) for place in np.flatnonzero(~np.isfinite(values))[:1]]
        if self._last is not None:
            values = np.concatenate([[self._last], values])
        first_row = self.rows + (1 if self._last is None else 0)
        self.rows += len(times)
        self._first = float(values[0]) if self._first is None else self._first
        self._last = float(values[-1])
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.diff(values)
        rising = steps[steps > 0]
        if not self.step and rising.size:
            self.step = float(np.median(rising))
        self._falls += [first_row + int(place) for place in np.flatnonzero(steps <= -self.step / 2)]
        self._gaps += [first_row + int(place) for place in np.flatnonzero(steps > GAP_STEPS * self.step)]
        steady = steps[(steps > -self.step / 2) & (steps <= GAP_STEPS * self.step)]
        if steady.size:
            self._sum += float(steady.sum())
            self._steady += steady.size
            self._spread = max(self._spread, float(np.abs(steady - self.step).max()))

    @property
    def counts_rows(self) -> bool:
        """Whether the column only numbers the rows."""
        whole = self._first is not None and float(self._first).is_integer()
        return whole and self.unit is None and self.step == 1.0 and not self._spread and not self._gaps + self._falls

    @property
    def is_steady(self) -> bool:
        """Whether every step is about the usual one."""
        return not self._gaps and not self._falls and not self._bad and self._spread <= STEADY * self.step

    @property
    def mean_step(self) -> float:
        """Mean of the steps that are neither gaps nor falls."""
        return self._sum / self._steady if self._steady else 0.0

    def rate(self) -> tuple[float | None, list[str]]:
        """Return the sample rate in Hz, None if the column does not tell, and what is unusual about the clock."""
        named = f"time column {self.name!r}"
        if self._bad:
            return None, [f"{named} has no number in row {self._bad[0] + 1}; it tells no sample rate"]
        if not self.mean_step or not np.isfinite(self.mean_step):
            return None, [f"{named} is not a clock; it tells no sample rate"]
        if len(self._gaps) + len(self._falls) > self.rows / 4:
            return None, [f"{named} has steps of many lengths; it tells no sample rate"]
        unit, notes = self.unit, []
        if unit is None:
            if 1 / self.mean_step < SLOWEST_ASSUMED:
                seconds, thousandths = 1 / self.mean_step, 1000 / self.mean_step
                text = f"{seconds:.6g} Hz in s, {thousandths:.6g} Hz in ms"
                return None, [f"{named} states no unit: its steps of {self.mean_step:.6g} are {text}"]
            unit = "s"
            notes.append(f"{named} states no unit and is taken to be in s")
        seconds = TIME_UNITS[unit]
        resolution = self._spread / (self.step * max(self._steady, 1))
        rate = shortest_rate(1 / (self.mean_step * seconds), tolerance=max(2 * resolution, 1e-7))
        notes.insert(0, f"sample rate {rate:.9g} Hz from {named}")
        if self._spread > JITTER * self.step:
            notes.append(f"the clock jitters by up to {self._spread * seconds * 1e6:.4g} us per sample")
        for kind, places in (("jumps ahead", self._gaps), ("falls back", self._falls)):
            if places:
                many = f"{len(places)} times, first" if len(places) > 1 else "once,"
                notes.append(f"the clock {kind} {many} at row {places[0] + 1}; samples are taken to be consecutive")
        return rate, notes


def shortest_rate(rate: float, *, tolerance: float) -> float:
    """Return the number with the fewest digits that differs from a rate by at most a share.

    >>> shortest_rate(99.29993, tolerance=1e-5)
    99.3
    """
    for digits in range(1, 12):
        candidate = float(f"{rate:.{digits}g}")
        if abs(candidate / rate - 1) <= tolerance:
            return candidate
    return rate
