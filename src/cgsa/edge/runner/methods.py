"""What every method gives for a batch of windows, and the frozen model without anything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .decision import softmax
from .package import Doubles, EdgePackage, Flags, Integers, Singles


@dataclass
class WindowResults:
    """The diagnosis of the good windows of a batch."""

    probabilities: Doubles
    """(windows, classes)"""
    ready: Flags
    """Windows that count for the decision."""
    agrees: Flags
    """Whether the frozen model gives the same class."""
    distance: Doubles | None = None
    """Distance from the training; None if the model knows none."""
    question: Integers | None = None
    """Number of the question about the sensor; 0 is none."""
    change: Doubles | None = None
    """Distance from the healthy start of the machine, 1 at the limit for healthy ones; None if nothing is compared."""
    accepted: int | None = None
    """Windows used for a reference; None if the method has none."""


class EdgeMethod(Protocol):
    """A way to diagnose windows."""

    def step(self, samples: Singles, good: Flags) -> WindowResults:
        """Diagnose the good windows of samples (channels, samples), then learn from them."""
        ...

    def interrupt(self, cause: str) -> None:
        """Take note that too many windows of a batch were not diagnosed, and why."""
        ...

    def status(self) -> dict[str, Any]:
        """Return what events say about the method."""
        ...


class FrozenMethod:
    """The trained model as it is: method ``source``."""

    def __init__(self, package: EdgePackage) -> None:
        self._package, self._pool = package, package.description["model"]
        self._network = package.kind == "network"

    def step(self, samples: Singles, good: Flags) -> WindowResults:
        """Diagnose the good windows."""
        found = good_features(self._package, samples, good)
        if self._network:
            found["features"] = found["features"] - np.array(self._pool.get("reference", 0.0))
        outputs = self._package.outputs(**found)
        scores = outputs["scores"]
        probabilities = softmax(scores if self._network else combined(scores, self._pool))
        every = np.ones(len(probabilities), dtype=np.bool_)
        # A frozen network has a distance, but method source does not say it.
        distance = None if self._network else outputs.get("distance")
        return WindowResults(probabilities, every, every, distance, outputs.get("question"))

    def interrupt(self, cause: str) -> None:
        """Do nothing: nothing is learnt."""

    def status(self) -> dict[str, Any]:
        """Return nothing: a frozen model has no state."""
        return {}


def good_features(package: EdgePackage, samples: Singles, good: Flags) -> dict[str, Doubles]:
    """Return the features of the good windows."""
    return {name: values[good] for name, values in package.features(samples).items()}


def combined(scores: Doubles, model: dict[str, Any]) -> Doubles:
    """Return the weighted sum of the members' log-probabilities, (windows, classes)."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    votes = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    limited = np.maximum(votes, model["least_log_probability"])
    return np.asarray(np.einsum("wmc,m->wc", limited, np.array(model["pool"])))
