"""A ledger over time: shares of verdicts and reasons per interval of the stream, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgsa.diagnosis.trust import CHANCE, COVERED
from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.ledger.rows import REASONS
from cgsa.metrics.accuracy import BoolArray, DoubleArray, IntArray
from cgsa.online.evidence import AGREES_WITH_SOURCE, evidence_by_condition

COUNTED = ("verdict", "reason", "source")
AVERAGED = ("confidence", AGREES_WITH_SOURCE, COVERED, CHANCE)
RESPONSE, QUEUE_MEAN = "response", "queue_mean"


def timeline_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns of a ledger that a timeline uses."""
    always = {"window", "accepted", *AVERAGED, *COUNTED}
    return [name for name in columns if name in always or name.startswith((RESPONSE, QUEUE_MEAN))]


@dataclass(frozen=True, eq=False)
class ResponsePoints:
    """Single windows with their residual response to one condition."""

    time: DoubleArray
    """Seconds from the beginning of the stream."""
    response: DoubleArray
    queue_mean: DoubleArray
    accepted: BoolArray


class LedgerTimeline:
    """Counts the rows of a ledger in equal intervals of the stream.

    At most ``intervals`` divide the whole stream of ``windows``, whichever of them are added; ``seconds_per_window`` is
    the step from one window to the next. ``classes`` is the order of the verdicts. Every ``keep_every``-th added window
    is kept as a point; 0 keeps none.
    """

    def __init__(
        self,
        windows: int,
        seconds_per_window: float,
        *,
        intervals: int,
        classes: Sequence[str] = (),
        keep_every: int = 0,
    ) -> None:
        self._total = max(1, windows)
        self._intervals = min(intervals, self._total)
        self._seconds = np.float64(seconds_per_window)
        # Window w is in interval w * intervals // total; this is the first window of each.
        first = -(-np.arange(self._intervals + 1) * self._total // self._intervals)
        self.borders: DoubleArray = np.minimum(first, windows) * self._seconds
        """Start of each interval and end of the last one, in seconds from the beginning of the stream."""
        self.windows: IntArray = np.zeros(self._intervals, np.int64)
        """Windows added per interval."""
        self._sums: dict[str, DoubleArray] = {"confidence": np.zeros(self._intervals)}
        self.classes = tuple(classes)
        self._order = {"verdict": self.classes, "reason": REASONS, "source": ()}
        self._counts: dict[str, dict[str, IntArray]] = {name: {} for name in COUNTED}
        self._keep_every = keep_every
        self._points: dict[str, list[tuple[npt.NDArray[np.generic], ...]]] = {}

    def add(self, columns: Columns) -> None:
        """Count rows; they arrive in the order of the stream."""
        window = np.asarray(columns["window"])
        if self._keep_every:
            self._keep_points(window, columns)
        interval = window * self._intervals // self._total
        self.windows += np.bincount(interval, minlength=self._intervals)
        for name in AVERAGED:
            if name in columns:
                summed = np.bincount(interval, weights=np.asarray(columns[name]), minlength=self._intervals)
                self._sums[name] = self._sums.get(name, np.zeros(self._intervals)) + summed
        for name, known in self._counts.items():
            if isinstance(column := columns[name], LabelColumn):
                for code in np.unique(column.codes):
                    counts = known.setdefault(column.labels[code], np.zeros(self._intervals, np.int64))
                    counts += np.bincount(interval[column.codes == code], minlength=self._intervals)

    def counts(self, name: str) -> dict[str, IntArray]:
        """Return the windows per interval of each verdict, reason or source that occurred."""
        found = self._counts[name]
        return {label: found[label] for label in (*self._order[name], *found) if label in found}

    def shares(self, name: str) -> dict[str, DoubleArray]:
        """Return the counts as shares of the windows of each interval; NaN if it has none."""
        return {label: self._per_window(counts) for label, counts in self.counts(name).items()}

    def totals(self, name: str) -> dict[str, float]:
        """Return the share of each verdict, reason or source among all windows."""
        return {label: float(counts.sum() / self.windows.sum()) for label, counts in self.counts(name).items()}

    @property
    def means(self) -> dict[str, DoubleArray]:
        """Mean confidence per interval, and the means of the trust columns; NaN if it has no windows."""
        return {name: self._per_window(sums) for name, sums in self._sums.items()}

    @property
    def points(self) -> dict[str, ResponsePoints]:
        """The points kept, by condition; empty if the method has no residual response."""
        return {
            condition: ResponsePoints(*(np.concatenate(column) for column in zip(*kept, strict=True)))
            for condition, kept in self._points.items()
        }

    def _per_window(self, sums: DoubleArray | IntArray) -> DoubleArray:
        empty = self.windows == 0
        return np.where(empty, np.nan, sums / np.where(empty, 1, self.windows))

    def _keep_points(self, window: IntArray, columns: Columns) -> None:
        seen = int(self.windows.sum())
        kept_rows = slice(-seen % self._keep_every, None, self._keep_every)
        unknown = np.full(len(window), np.nan)
        means = evidence_by_condition(QUEUE_MEAN, columns)
        for condition, response in evidence_by_condition(RESPONSE, columns).items():
            rows = (
                window * self._seconds,
                np.asarray(response),
                np.asarray(means.get(condition, unknown)),
                np.asarray(columns.get("accepted", unknown > 0)),
            )
            # Copies: a view would keep the whole batch in memory.
            kept = tuple(row[kept_rows].copy() for row in rows)
            if len(kept[0]):
                self._points.setdefault(condition, []).append(kept)
