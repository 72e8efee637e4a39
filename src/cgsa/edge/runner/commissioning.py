"""Method ``commissioning``: an ensemble, relative to a healthy start of the machine where the model would be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decision import sigmoid, softmax
from .methods import WindowResults, combined, good_features
from .own_start import StartComparison
from .package import Doubles, EdgePackage, Flags, Singles
from .start import StartObserver, StartRows, lower_median


class CommissionedEnsemble(StartObserver):
    """Shifts the scores of the members by the healthy start, just far enough for it to count as healthy."""

    def __init__(self, package: EdgePackage, *, healthy: bool) -> None:
        super().__init__(package, healthy=healthy)
        self._model: dict[str, Any] = package.description["model"]
        self._healthy_scores = np.array(self._model["healthy_scores"])
        self._shift = np.zeros_like(self._healthy_scores)
        self._start_distance = 0.0
        self._comparison = StartComparison(package)

    def step(self, samples: Singles, good: Flags) -> WindowResults:
        """Diagnose the good windows, then observe the start."""
        features = good_features(self._package, samples, good)
        outputs = self._package.outputs(**features)
        scores, distance = outputs["scores"], outputs.get("distance")
        known = np.ones(len(scores)) if distance is None else distance
        probabilities, frozen = self._views(scores, known)
        compared = self._comparison.rows(features["features"])
        probabilities, change = self._comparison.compare(probabilities, compared)
        rows = self.rows(samples, good, scores, np.log(np.maximum(known, self._found["least_distance"])), compared)
        ready = np.full(len(scores), not self.observing(rows))
        agrees = probabilities.argmax(axis=1) == frozen.argmax(axis=1)
        accepted = self.observe(rows)
        return WindowResults(probabilities, ready, agrees, distance, outputs.get("question"), change, accepted)

    def keep_reference(self, span: StartRows) -> None:
        """Keep a healthy start, and take the reference of the machine if the model needs one for it."""
        votes = self._mean_votes(span.scores)
        if softmax(votes)[0] < self._found["evident"]:
            self._shift = self._needed_shift(span)
        self._start_distance = float(np.exp(lower_median(span.distances)))
        self._comparison.keep(span.compared)

    def appears_healthy(self, span: StartRows) -> bool:
        """Return whether a start needs no answer by a person."""
        return self._seems_healthy(span.scores) and self.resembles_training(span)

    def moves(self, span: StartRows) -> bool:
        """Return whether a start is not steady: its level moves, or one reference does not suit all of its quarters."""
        shift = np.zeros_like(self._shift) if self._seems_healthy(span.scores) else self._needed_shift(span)
        healthy = [softmax(self._mean_votes(part.scores - shift))[0] for part in self.quarters(span)]
        return super().moves(span) or min(healthy) < 1 - self._found["confident"]

    def describe(self) -> str:
        """Return the state as a sentence."""
        if self._state == "question" and self._span is not None:
            return f"question: {self._question(self._span)}; confirm healthy, or mark as faulty"
        if self._shift.any():
            return "commissioned: reference of this machine in use"
        compared = "compared with the healthy start of this machine"
        return f"commissioned: {compared if self._comparison.has_start else 'no reference needed'}"

    @property
    def has_reference(self) -> bool:
        """Whether a reference of the machine is in use."""
        return bool(self._shift.any()) or self._comparison.has_start

    def _question(self, span: StartRows) -> str:
        likely = self._package.classes[int(self._mean_votes(span.scores).argmax())].replace("_", " ")
        if self._known is None:
            return f"looks like {likely}, but the model does not know the range of its training"
        if self.resembles_training(span):
            return f"looks like {likely}"
        return f"unlike every machine of the training, most like {likely}"

    def _views(self, scores: Doubles, distance: Doubles) -> tuple[Doubles, Doubles]:
        """Return class probabilities with the better-fitting reference, and those of the frozen model."""
        frozen = softmax(combined(scores, self._model))
        if not self._shift.any():
            return frozen, frozen
        own = softmax(combined(scores - self._shift, self._model))
        returned = self._found["returned_share"] * self._start_distance
        if returned < 1:
            return own, frozen
        tiny = self._found["tiny"]
        odds = self._found["sharpness"] * np.log(np.maximum(distance, tiny) / max(returned, tiny))
        weight = sigmoid(odds)[:, None]
        return weight * own + (1 - weight) * frozen, frozen

    def _needed_shift(self, span: StartRows) -> Doubles:
        """Return the smallest share of the difference from the training with which the start looks healthy."""
        reference = lower_median(span.scores) - self._healthy_scores
        shifts = [share * reference for share in self._found["shares"]]
        return next((one for one in shifts if self._seems_healthy(span.scores - one)), shifts[-1])

    def _seems_healthy(self, scores: Doubles) -> bool:
        return bool(self._mean_votes(scores).argmax() == 0)

    def _mean_votes(self, scores: Doubles) -> Doubles:
        """Return the mean log-probability of each class."""
        votes = combined(scores, self._model)
        top = votes.max(axis=1, keepdims=True)
        return np.asarray((votes - top - np.log(np.exp(votes - top).sum(axis=1, keepdims=True))).mean(axis=0))
