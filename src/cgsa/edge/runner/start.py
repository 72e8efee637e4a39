"""Observes a healthy start of the machine, and says if it is in doubt; what it is used for differs by method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .package import Doubles, EdgePackage, Flags, Integers, Singles
from .windowing import deviations_by_window

TINY = 1e-30


@dataclass(frozen=True)
class StartRows:
    """What is kept of windows of the start, one row each."""

    scores: Doubles
    levels: Doubles
    """(rows, channels): logarithm of the standard deviation."""
    distances: Doubles
    """Logarithm of the distance from the training."""
    compared: Doubles
    """(rows, features): what is compared with the start later."""

    def __len__(self) -> int:
        return len(self.distances)

    def __getitem__(self, index: Flags | slice) -> StartRows:
        return StartRows(*(one[index] for one in self._columns))

    def followed_by(self, other: StartRows) -> StartRows:
        """Return these rows and then the others."""
        return StartRows(*(np.concatenate(pair) for pair in zip(self._columns, other._columns, strict=True)))

    @property
    def _columns(self) -> tuple[Doubles, ...]:
        return self.scores, self.levels, self.distances, self.compared


class StartObserver(ABC):
    """The commissioning of a machine."""

    def __init__(self, package: EdgePackage, *, healthy: bool) -> None:
        found = package.description["start"]
        self._package, self._found = package, found
        self._state, self._cause, self._count = "waiting", 0, 0
        self._healthy = healthy
        self._span: StartRows | None = None
        self._wanted: int = found["windows"]
        self._known: float | None = found["known"]

    @abstractmethod
    def keep_reference(self, span: StartRows) -> None:
        """Keep what a healthy start says about the machine."""

    @abstractmethod
    def appears_healthy(self, span: StartRows) -> bool:
        """Return whether a start needs no answer by a person."""

    @abstractmethod
    def describe(self) -> str:
        """Return the state as a sentence, once the start has been observed."""

    @property
    @abstractmethod
    def has_reference(self) -> bool:
        """Whether a reference of the machine is in use."""

    def moves(self, span: StartRows) -> bool:
        """Return whether the start is not steady: the level of a channel differs between its quarters."""
        medians = np.stack([lower_median(part.levels) for part in self.quarters(span)])
        return bool((np.ptp(medians, axis=0) > self._found["moving_level"]).any())

    def quarters(self, span: StartRows) -> list[StartRows]:
        """Return the quarters of a span."""
        edges = np.array_split(np.arange(len(span)), self._found["quarters"])
        return [span[part[0] : part[-1] + 1] for part in edges if len(part)]

    def rows(
        self, samples: Singles, good: Flags, scores: Doubles, log_distances: Doubles, compared: Doubles | None = None
    ) -> StartRows:
        """Return what may be kept of good windows; ``compared`` is what later windows are compared with."""
        deviations = deviations_by_window(samples, self._package.length, self._package.step)[:, good]
        kept = np.zeros((len(scores), 0)) if compared is None else compared
        return StartRows(scores, np.log(np.maximum(deviations, TINY)).T, log_distances, kept)

    def observing(self, rows: StartRows) -> bool:
        """Return whether a start that is known to be healthy is being observed: the model's output does not count."""
        return self._healthy and self._state == "waiting" and not self._common_flaw(self._flaws(rows))

    def observe(self, rows: StartRows) -> int:
        """Use windows for the start, while it is observed; return how many were used."""
        if self._state != "waiting":
            return 0
        flaws = self._flaws(rows)
        if cause := self._common_flaw(flaws):
            self._restart(cause)
            return 0
        suitable = flaws == 0
        suitable &= np.cumsum(suitable) <= self._wanted - self._count
        self._add(rows[suitable])
        return int(suitable.sum())

    def interrupt(self, cause: str) -> None:
        """Start the span anew, since too many windows were not diagnosed."""
        if self._state == "waiting":
            self._restart(self._code(cause))

    def status(self) -> dict[str, Any]:
        """Return how far the commissioning is, as events say it."""
        cause, text = self._found["causes"][self._cause]
        observed = min(1.0, self._count / self._wanted)
        if cause is not None:
            sentence = f"waiting: {text}"
        elif self._state == "waiting":
            sentence = f"waiting: observing the healthy start, {observed:.0%} of {self._found['seconds']:g} s"
        else:
            sentence = self.describe()
        commissioning = {
            "state": self._state,
            "cause": cause,
            "text": sentence,
            "observed": observed,
            "reference": self.has_reference,
        }
        return {"commissioning": commissioning}

    def resembles_training(self, span: StartRows) -> bool:
        """Return whether nearly all rows are within the limit of the known; never without a distance."""
        return self._known is not None and bool((span.distances <= self._known).mean() >= self._found["share"])

    def _flaws(self, rows: StartRows) -> Integers:
        """Return the code of what makes each row unsuitable; 0 if nothing does."""
        codes = np.zeros(len(rows), dtype=np.int64)
        if self._known is not None:
            codes[rows.distances > self._known + np.log(self._found["far"])] = self._code("outside training")
        if self._found["lowest_levels"] is not None:
            lowest = np.log(np.maximum(self._found["lowest_levels"], TINY))
            still = (rows.levels - lowest < np.log(self._found["standstill_share"])).all(axis=1)
            codes[still] = self._code("standstill")
        return codes

    def _common_flaw(self, flaws: Integers) -> int:
        if (flaws == 0).mean() >= self._found["share"]:
            return 0
        return int(np.bincount(flaws[flaws > 0]).argmax())

    def _add(self, rows: StartRows) -> None:
        before, self._count = self._count, self._count + len(rows)
        # Evenly spaced rows are kept, so that a long start needs no more memory than a short one.
        strides = [1 << (max(0, count - 1) // self._found["rows"]).bit_length() for count in (before, self._count)]
        kept = rows[np.arange(before, self._count) % strides[1] == 0]
        span = kept if self._span is None else self._span[:: strides[1] // strides[0]].followed_by(kept)
        self._span = span
        unsteady = self._code("not steady")
        self._cause = unsteady if self._cause == unsteady else 0
        if self._count < self._wanted:
            return
        if self.moves(span):
            # That the machine is healthy was said about this start; a later one may already show a fault.
            self._healthy = False
            self._restart(unsteady)
        elif self._healthy or self.appears_healthy(span):
            self.keep_reference(span)
            self._state, self._cause, self._span = "done", 0, None
        else:
            self._state, self._cause = "question", 0

    def _restart(self, cause: int) -> None:
        self._cause, self._span, self._count = cause, None, 0

    def _code(self, cause: str) -> int:
        return [name for name, _ in self._found["causes"]].index(cause)


def lower_median(values: Doubles) -> Doubles:
    """Return the median over the rows; of an even number of rows, the lower of both in the middle."""
    return np.asarray(np.sort(values, axis=0)[(len(values) - 1) // 2])
