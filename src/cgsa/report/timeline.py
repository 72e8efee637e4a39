"""A ledger over time: shares of verdicts and reasons in stretches of the stream, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

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


def needed(columns: Iterable[str]) -> list[str]:
    """Return which of the columns of a ledger a course looks at."""
    always = {"window", "accepted", *AVERAGED, *COUNTED}
    return [name for name in columns if name in always or name.startswith((RESPONSE, QUEUE_MEAN))]


@dataclass(frozen=True, eq=False)
class Points:
    """Some windows one by one, with their response to one condition."""

    time: DoubleArray
    """Second along the stream."""
    response: DoubleArray
    queue_mean: DoubleArray
    learnt: BoolArray


class LedgerTimeline:
    """Counts the rows of a ledger in equal stretches of the stream.

    Parameters
    ----------
    windows
        How many the stream has. Stretches divide all of it, whichever of its windows are added.
    seconds_per_window
        From the begin of one window to that of the next.
    stretches
        How many there are at most.
    classes
        Verdicts in the order in which they are told.
    every
        Every how manieth of the added windows is kept as a point; 0 keeps none.
    """

    def __init__(
        self, windows: int, seconds_per_window: float, *, stretches: int, classes: Sequence[str] = (), every: int = 0
    ) -> None:
        self._total = max(1, windows)
        self._stretches = min(stretches, self._total)
        self._seconds = np.float64(seconds_per_window)
        # Window w lies in stretch w * stretches // total: here is the first of each.
        first = -(-np.arange(self._stretches + 1) * self._total // self._stretches)
        self.borders: DoubleArray = np.minimum(first, windows) * self._seconds
        """Second along the stream at which each stretch begins, and at which the last one ends."""
        self.windows: IntArray = np.zeros(self._stretches, np.int64)
        """How many windows of each stretch were added."""
        self._sums: dict[str, DoubleArray] = {"confidence": np.zeros(self._stretches)}
        self.classes = tuple(classes)
        self._order = {"verdict": self.classes, "reason": REASONS, "source": ()}
        self._counts: dict[str, dict[str, IntArray]] = {name: {} for name in COUNTED}
        self._every = every
        self._points: dict[str, list[tuple[npt.NDArray[np.generic], ...]]] = {}

    def add(self, columns: Columns) -> None:
        """Count rows; they come in the order of the stream."""
        window = np.asarray(columns["window"])
        if self._every:
            self._keep_points(window, columns)
        stretch = window * self._stretches // self._total
        self.windows += np.bincount(stretch, minlength=self._stretches)
        for name in AVERAGED:
            if name in columns:
                summed = np.bincount(stretch, weights=np.asarray(columns[name]), minlength=self._stretches)
                self._sums[name] = self._sums.get(name, np.zeros(self._stretches)) + summed
        for name, known in self._counts.items():
            column = cast(LabelColumn, columns[name])
            for code in np.unique(column.codes):
                counts = known.setdefault(column.words[code], np.zeros(self._stretches, np.int64))
                counts += np.bincount(stretch[column.codes == code], minlength=self._stretches)

    def counts(self, name: str) -> dict[str, IntArray]:
        """Return how often each verdict, reason or source occurred in each stretch; what never did is left out."""
        found = self._counts[name]
        words = [*self._order[name], *found]
        return {word: found[word] for word in words if word in found}

    def shares(self, name: str) -> dict[str, DoubleArray]:
        """Return the same as shares of the windows of each stretch; NaN where it has none."""
        return {word: self._by_stretch(counts) for word, counts in self.counts(name).items()}

    def totals(self, name: str) -> dict[str, float]:
        """Return the share of each verdict, reason or source among all windows."""
        return {word: float(counts.sum() / self.windows.sum()) for word, counts in self.counts(name).items()}

    @property
    def means(self) -> dict[str, DoubleArray]:
        """Mean confidence in each stretch, and of what was seen of trust; NaN where it has no window."""
        return {name: self._by_stretch(sums) for name, sums in self._sums.items()}

    @property
    def points(self) -> dict[str, Points]:
        """The windows that were kept, by condition; nothing where the method has no residual response."""
        return {
            condition: Points(*(np.concatenate(column) for column in zip(*kept, strict=True)))
            for condition, kept in self._points.items()
        }

    def _by_stretch(self, sums: DoubleArray | IntArray) -> DoubleArray:
        empty = self.windows == 0
        return np.where(empty, np.nan, sums / np.where(empty, 1, self.windows))

    def _keep_points(self, window: IntArray, columns: Columns) -> None:
        seen = int(self.windows.sum())
        few = slice(-seen % self._every, None, self._every)
        unknown = np.full(len(window), np.nan)
        means = evidence_by_condition(QUEUE_MEAN, columns)
        for condition, response in evidence_by_condition(RESPONSE, columns).items():
            rows = (
                window * self._seconds,
                np.asarray(response),
                np.asarray(means.get(condition, unknown)),
                np.asarray(columns.get("accepted", unknown > 0)),
            )
            # Copies: a view would hold the whole batch.
            kept = tuple(row[few].copy() for row in rows)
            if len(kept[0]):
                self._points.setdefault(condition, []).append(kept)
