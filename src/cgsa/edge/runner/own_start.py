"""Compares windows with the healthy start of the machine itself."""

from __future__ import annotations

import numpy as np

from .package import Doubles, EdgePackage


class StartComparison:
    """Counts windows that are as at the start as healthy, and says how far all windows are from it.

    Nothing is compared if the model has no limits for it.
    """

    def __init__(self, package: EdgePackage) -> None:
        self._package, self._found = package, package.description.get("own_start")
        self._start: Doubles | None = None

    @property
    def has_start(self) -> bool:
        """Whether a healthy start is known."""
        return self._start is not None

    def rows(self, features: Doubles) -> Doubles:
        """Return what is compared of windows, (windows, features)."""
        spans = [] if self._found is None else self._found["features"]
        return np.concatenate([features[:, :0], *(features[:, first:end] for first, end in spans)], axis=1)

    def keep(self, rows: Doubles) -> None:
        """Keep the windows of a healthy start."""
        self._start = None if self._found is None else rows.mean(axis=0, keepdims=True)

    def compare(self, probabilities: Doubles, rows: Doubles) -> tuple[Doubles, Doubles | None]:
        """Return class probabilities in which unchanged windows count as healthy, and the change of all windows."""
        if self._found is None:
            return probabilities, None
        if self._start is None:
            return probabilities, np.zeros(len(rows))
        distance = self._package.log_distances(rows, self._start).min(axis=1)
        unchanged = ((self._found["unchanged"] - distance) / self._found["passage"]).clip(0, 1)
        found, each, likely = probabilities.copy(), np.arange(len(rows)), probabilities.argmax(axis=1)
        moved = unchanged * (found[each, likely] - found[:, 0])
        found[each, likely] -= moved
        found[:, 0] += moved
        return found, np.exp(np.minimum(distance - self._found["changed"], self._found["most"]))
