"""Method ``change``: healthy or changed, by a model that was trained on healthy recordings alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decision import sigmoid
from .methods import WindowResults, good_features
from .package import Doubles, EdgePackage, Flags, Singles
from .start import StartObserver, StartRows

GENERAL, OWN, OWN_STEADY = range(3)
"""Views of the model: relative to the training, to a reference of the machine, and to one at the same conditions."""


class ChangeDetector(StartObserver):
    """Compares windows with the healthy start of the machine, and without one with the training."""

    def __init__(self, package: EdgePackage, *, healthy: bool) -> None:
        super().__init__(package, healthy=healthy)
        self._model: dict[str, Any] = package.description["model"]
        self._reference: Doubles | None = None
        self._score: float | None = None
        """Logarithm, smoothed over time."""

    def step(self, samples: Singles, good: Flags) -> WindowResults:
        """Diagnose the good windows, then observe the start."""
        features = good_features(self._package, samples, good)["features"]
        none = np.zeros((1, features.shape[1]))
        outputs = self._package.outputs(features=features, references=none if not self.has_reference else self._own)
        general, limits = outputs["general"], self._model["limits"]
        view, distance = GENERAL, general
        if self.has_reference:
            view, distance = OWN_STEADY if self._model["steady"] else OWN, outputs["own"].min(axis=1)
        score = distance - limits[view]
        odds = score / self._model["widths"][view] * self._model["log_odds"]
        rows = self.rows(samples, good, features, score)
        ready = np.full(len(score), not self.observing(rows))
        agrees = (score > 0) == (general - limits[GENERAL] > 0)
        accepted = self.observe(rows)
        weight = 1 - np.exp(-len(score) * self._model["step_seconds"] / self._model["smoothing_seconds"])
        now = float(score.mean())
        self._score = now if self._score is None else self._score + weight * (now - self._score)
        changed = sigmoid(odds)
        return WindowResults(np.stack([1 - changed, changed], axis=1), ready, agrees, accepted=accepted)

    def keep_reference(self, span: StartRows) -> None:
        """Take the mean of a healthy start as the reference of the machine."""
        self._reference = span.scores.mean(axis=0, keepdims=True)

    def appears_healthy(self, span: StartRows) -> bool:
        """Return whether a start needs no answer by a person."""
        return bool(np.sort(span.distances)[(len(span) - 1) // 2] <= 0)

    def describe(self) -> str:
        """Return the state as a sentence."""
        if self._state == "question":
            return "question: unlike the healthy machines of the training; confirm healthy, or mark as faulty"
        return "commissioned: 1 healthy reference of this machine in use"

    @property
    def has_reference(self) -> bool:
        """Whether a reference of the machine is in use."""
        return self._reference is not None

    def status(self) -> dict[str, Any]:
        """Return how far the commissioning is, and the score; 1 is the limit."""
        score = None if self._score is None else {"score": float(np.exp(min(self._score, self._model["most"])))}
        return {**super().status(), "change": score}

    @property
    def _own(self) -> Doubles:
        if self._reference is None:
            raise RuntimeError("no reference has been taken")
        return self._reference
