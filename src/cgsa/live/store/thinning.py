"""Old windows of a ledger take less space: first one window in several stays, later means over some seconds.

Whatever is thinned, the counts stay exact. Each stored row has a column ``stands_for``: the number of windows that it
stands for, all with the same verdict, the same reason and the same use for adaptation. So the shares of verdicts and
reasons over any period are those of all windows, to within the rows at its ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.errors import ConfigError
from cgsa.ledger.columns import STANDS_FOR, Column, Columns, LabelColumn, stands_for

WHOLE, SAMPLED, MEANS, KEPT = range(4)
"""Stages of a stored row: every window; one in several; means; every window, because of an alarm or a label."""
GROUPS = {WHOLE: 60.0, SAMPLED: 3600.0, KEPT: 60.0}
"""Seconds of stream that become one row of the next stage: one row per batch would mostly hold names of columns."""


@dataclass(frozen=True)
class LedgerBudget:
    """How the windows of a machine are thinned as they get older.

    Ages count by arrival, as for the deletion of rows.
    """

    whole_hours: float = 3.0
    """Up to this age every window is kept."""
    sampled_hours: float = 24.0
    """Up to this age one window in ``every`` is kept, and at least one of each verdict and reason per minute."""
    every: int = 16
    mean_seconds: float = 10.0
    """Beyond it, the means over this many seconds are kept, by verdict and reason."""
    alarm_seconds: float = 300.0
    """Before and after an alarm, and in labelled intervals, every window is kept."""
    megabytes: float = 450.0
    """Size of one machine's ledger. Beyond it, windows are thinned at an earlier age: around alarms last of all."""

    def __post_init__(self) -> None:
        if not 0 <= self.whole_hours <= self.sampled_hours or self.alarm_seconds < 0:
            raise ConfigError(
                f"whole_hours {self.whole_hours:g}, sampled_hours {self.sampled_hours:g}, alarm_seconds "
                f"{self.alarm_seconds:g}; expected 0 or more, and sampled_hours not below whole_hours"
            )
        if self.every < 1 or not self.mean_seconds > 0 or not self.megabytes > 0:
            raise ConfigError(
                f"every {self.every}, mean_seconds {self.mean_seconds:g}, megabytes {self.megabytes:g}; expected at "
                f"least 1, and more than 0"
            )


def sampled_windows(columns: Columns, every: int) -> dict[str, Column]:
    """Return one window in ``every`` of each verdict, reason and use, the first of them included."""
    chosen, counts = [], []
    weights = stands_for(columns)
    for members in _groups(columns):
        begins = np.arange(0, len(members), every)
        chosen.append(members[begins])
        counts.append(np.add.reduceat(weights[members], begins))
    return _picked(columns, np.concatenate(chosen), np.concatenate(counts))


def averaged_windows(columns: Columns, seconds: float) -> dict[str, Column]:
    """Return one row per interval of some seconds and per verdict, reason and use, with the means of the numbers."""
    weights = stands_for(columns)
    intervals = np.floor(np.asarray(columns["time"]) / seconds).astype(np.int64)
    groups = list(_groups(columns, intervals))
    # In the order of `_picked`: that of their first windows.
    times = np.asarray(columns["time"])
    groups.sort(key=lambda group: (times[group[0]], group[0]))
    firsts = np.array([group[0] for group in groups])
    found = _picked(columns, firsts, np.array([weights[group].sum() for group in groups]))
    for name, column in columns.items():
        if isinstance(column, LabelColumn) or name in {"window", "time", "accepted", STANDS_FOR}:
            continue
        found[name] = np.array([_mean(column[group], weights[group]) for group in groups], np.float32)
    return found


def _groups(columns: Columns, *keys: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the indices of the rows that agree in all labels, in their use and in the keys."""
    labels = [column.codes for column in columns.values() if isinstance(column, LabelColumn)]
    used = [np.asarray(columns["accepted"])] if "accepted" in columns else []
    table = np.stack([np.asarray(key, np.int64) for key in (*labels, *used, *keys)])
    _, numbers = np.unique(table, axis=1, return_inverse=True)
    order = np.argsort(numbers.ravel(), kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(numbers.ravel()[order])) + 1)


def _picked(columns: Columns, rows: npt.NDArray[np.intp], counts: npt.NDArray[np.float64]) -> dict[str, Column]:
    """Return some rows in the order of their times, with the number of windows that each stands for."""
    order = np.lexsort((rows, np.asarray(columns["time"])[rows]))
    rows = rows[order]
    picked: dict[str, Column] = {
        name: LabelColumn(column.codes[rows], column.labels) if isinstance(column, LabelColumn) else column[rows]
        for name, column in columns.items()
    }
    return picked | {STANDS_FOR: counts[order].astype(np.float32)}


def _mean(values: npt.NDArray[Any], weights: npt.NDArray[np.float64]) -> float:
    """Return the mean of the values that are known; NaN without one."""
    known = np.isfinite(values)
    return float(np.average(values[known], weights=weights[known])) if known.any() else np.nan
