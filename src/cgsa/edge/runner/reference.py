"""Method ``reference``: a network sees how windows differ from the first healthy half second of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decision import sigmoid, softmax
from .methods import WindowResults, good_features
from .package import Doubles, EdgePackage, Flags, Singles
from .start import lower_median


class ReferenceNetwork:
    """Takes a reference from the first windows, if they are close to the training."""

    def __init__(self, package: EdgePackage) -> None:
        self._package, self._model = package, package.description["model"]
        self._general = np.array(self._model["reference"])
        self._reference, self._span = self._general, np.zeros((0, len(self._general)))
        self._commissioned = self._familiar = False

    def step(self, samples: Singles, good: Flags) -> WindowResults:
        """Diagnose the good windows, then take the reference if they complete its span."""
        features = good_features(self._package, samples, good)["features"]
        probabilities, distance = self._diagnose(features - self._reference)
        general, general_distance = self._diagnose(features - self._general)
        if self._familiar:
            tiny = self._model["tiny"]
            ratio = np.maximum(general_distance, tiny) / np.maximum(distance, tiny)
            weight = sigmoid(self._model["sharpness"] * np.log(ratio))
            probabilities = weight[:, None] * probabilities + (1 - weight[:, None]) * general
            distance = weight * distance + (1 - weight) * general_distance
        ready = np.full(len(features), self._commissioned)
        agrees = probabilities.argmax(axis=1) == general.argmax(axis=1)
        accepted = 0
        if not self._commissioned:
            accepted = min(len(features), self._model["windows"] - len(self._span))
            self._commission(features[:accepted])
        return WindowResults(probabilities, ready, agrees, distance, accepted=accepted)

    def interrupt(self, cause: str) -> None:
        """Do nothing: rejected windows are no part of the span."""

    def status(self) -> dict[str, Any]:
        """Return nothing: that windows are ready says all."""
        return {}

    def _diagnose(self, inputs: Doubles) -> tuple[Doubles, Doubles]:
        outputs = self._package.outputs(features=inputs)
        return softmax(outputs["scores"]), outputs["distance"]

    def _commission(self, features: Doubles) -> None:
        """Add windows to the span; if it is full and its windows are similar, take their reference."""
        span = np.concatenate([self._span, features])
        if len(span) < self._model["windows"]:
            self._span = span
            return
        reference = lower_median(span)
        self._commissioned = self._fits(span - reference)
        if self._commissioned:
            self._reference, self._familiar = reference, self._fits(span - self._general)
        self._span = span[:0] if self._commissioned else span[len(span) // 2 + 1 :]

    def _fits(self, inputs: Doubles) -> bool:
        """Return whether nearly all windows of a span are close to the training."""
        distance = self._diagnose(inputs)[1]
        return bool(np.quantile(distance, self._model["fitting_share"]) <= self._model["known_distance"])
