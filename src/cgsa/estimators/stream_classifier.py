"""A classifier of single samples with the interface of river: one sample of all channels at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Self

import numpy as np

from cgsa.errors import DataError
from cgsa.estimators.machine import Machine, load
from cgsa.estimators.references import samples_needed
from cgsa.estimators.verdicts import WindowVerdicts
from cgsa.live.intake.quality import GOOD

Sample = Mapping[str, float]
"""A value per channel, by its name."""


class StreamClassifier:
    """Watches a machine sample by sample.

    ``learn_one`` adds a sample to the window; ``predict_one`` and ``predict_proba_one`` return what the last complete
    windows say, and change nothing. Before the first batch of windows is complete, they return None and equal
    probabilities.

    A label is feedback. Consecutive samples that are labelled healthy, as many as a reference takes, commission a
    machine that has none; a refusal is kept in ``notes``. Labels of faults change nothing, since nothing that comes
    later may teach a model that a fault is normal. Channels that a sample lacks count as NaN, so that the quality gate
    rejects their windows; other keys are ignored.

    Parameters
    ----------
    machine
        The machine, or the folder of its model.
    """

    def __init__(self, machine: Machine | str | PathLike[str]) -> None:
        self.machine = machine if isinstance(machine, Machine) else load(machine)
        self.last: WindowVerdicts | None = None
        """The last batch of windows; None before the first."""
        self.notes: list[str] = []
        """Why no reference was taken, each time."""
        self._samples: list[list[float]] = []
        """Samples that are not a whole step of the window yet."""
        self._healthy: list[list[float]] = []
        """Consecutive samples that are labelled healthy."""
        self._needed = samples_needed(self.machine.bundle, self.machine.config)

    def learn_one(self, x: Sample, y: str | None = None) -> None:
        """Add a sample; ``y`` is its label if it is known."""
        if y is not None and y not in self.machine.classes:
            raise DataError(f"label {y!r}; the model knows {', '.join(self.machine.classes)}")
        values = [_value(x, name) for name in self.machine.channels]
        self._samples.append(values)
        if len(self._samples) >= self.machine.bundle.manifest.window.step:
            block = np.array(self._samples, dtype=np.float32).T
            self._samples = []
            for batch in self.machine.stream([block], channels_first=True):
                self.last = batch
        self._take_feedback(values, healthy=y == self.machine.classes[0])

    def predict_one(self, x: Sample | None = None) -> str | None:
        """Return the verdict so far, joined over time; ``x``, the next sample, says nothing on its own."""
        del x
        return None if self.last is None else str(self.last.verdict[-1])

    def predict_proba_one(self, x: Sample | None = None) -> dict[str, float]:
        """Return the class probabilities of the last good window; equal ones if the last batch has no good window."""
        del x
        classes = self.machine.classes
        good = [] if self.last is None else np.flatnonzero(self.last.quality == GOOD).tolist()
        row = np.ones(len(classes)) if self.last is None or not good else self.last.probabilities[good[-1]]
        return dict(zip(classes, (row / row.sum()).tolist(), strict=True))

    @property
    def alarm(self) -> str | None:
        """The fault of the active alarm; None if there is none."""
        return None if self.last is None else self.last.alarm[-1]

    def clone(self, new_params: Mapping[str, object] | None = None) -> Self:
        """Return a classifier with the same model and settings, or with another ``machine``, that has seen nothing."""
        machine = (new_params or {}).get("machine", self.machine)
        return type(self)(machine.clone() if isinstance(machine, Machine) else str(machine))

    def _take_feedback(self, values: list[float], *, healthy: bool) -> None:
        if self._needed is None or not healthy or self.machine.commissioned:
            self._healthy = []
            return
        self._healthy.append(values)
        if len(self._healthy) < self._needed:
            return
        block, self._healthy = np.array(self._healthy, dtype=np.float32).T, []
        try:
            self.machine.commission(block, sample_rate=self.machine.sample_rate, channels_first=True)
        except DataError as refusal:
            self.notes.append(str(refusal))


def _value(x: Sample, name: str) -> float:
    value = x.get(name, math.nan)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"channel {name}: {value!r}; expected a number")
    return float(value)
