"""The diagnosis of one machine: samples in, one event per batch of windows out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from .commissioning import CommissionedEnsemble
from .decision import StateChains
from .healthy_machine import ChangeDetector
from .methods import EdgeMethod, FrozenMethod, WindowResults
from .operation import OperationObserver
from .package import EdgeError, EdgePackage, Flags, Singles
from .quality import SignalQuality
from .reference import ReferenceNetwork
from .windowing import BatchCutter, SignalBatch

NO_DATA = "no data"


class EdgeMachine:
    """Diagnoses the signal of a machine from its first sample on.

    ``healthy_start`` is whether the machine is known to be healthy then; if not, a start that does not look healthy to
    the model leads to a question.
    """

    def __init__(self, package: EdgePackage, *, healthy_start: bool = False) -> None:
        self.package = package
        self.source = ""
        self._cutter, self._quality, self._chains = BatchCutter(package), SignalQuality(package), StateChains(package)
        self._operation = OperationObserver(package)
        self._method = _method_of(package, healthy_start=healthy_start or package.description["healthy_start"])
        self._batches = 0

    def add(self, samples: Singles) -> list[dict[str, Any]]:
        """Add the next samples, (channels, samples); return the events of the batches that they complete."""
        return [self._diagnose(batch) for batch in self._cutter.add(samples)]

    def end(self) -> list[dict[str, Any]]:
        """Return the events of the windows that are left at the end of a recording; the next one may follow."""
        return [self._diagnose(batch) for batch in self._cutter.end()]

    def _diagnose(self, batch: SignalBatch) -> dict[str, Any]:
        worst = self._quality.check(batch.samples).max(axis=0)
        still = self._operation.check(batch.samples, worst, batch.begin)
        used = (worst == 0) & ~still
        reasons = [*self._quality.reasons, self._operation.reason]
        flagged = Counter(reasons[code] for code in np.where(still, len(reasons) - 1, worst) if code)
        seconds = batch.samples.shape[1] / self.package.sample_rate
        event: dict[str, Any] = {
            "event": "diagnosis",
            "version": 1,
            "batch": self._batches,
            "source": self.source,
            "begin": batch.begin,
            "end": batch.begin + seconds,
            "windows": len(used),
        }
        if used.any():
            found = self._describe(batch.samples, used)
        else:
            found = _nothing(self._operation.off_state if still.any() else NO_DATA)
        if used.mean() < self.package.description["least_good_share"]:
            self._method.interrupt("standstill" if still.sum() > (~used).sum() / 2 else "sensor fault")
        self._batches += 1
        status = self._method.status()
        if not used.any() and "change" in status:
            status["change"] = None
        return {**event, **found, "flagged": dict(flagged), **status, "operation": self._operation.status()}

    def _describe(self, samples: Singles, used: Flags) -> dict[str, Any]:
        results = self._method.step(samples, used)
        joined = self._chains.add(results.probabilities, results.distance, results.ready, results.change)
        mean, classes = results.probabilities.mean(axis=0), self.package.classes
        predicted = results.probabilities.argmax(axis=1)
        chance = joined.window_probabilities[np.arange(len(predicted)), predicted]
        return {
            "verdict": classes[int(mean.argmax())],
            "probabilities": dict(zip(classes, mean.tolist(), strict=True)),
            "accepted": results.accepted,
            "state": joined.state,
            "alarm": joined.alarm,
            "trust": {
                "agreement": float(results.agrees.mean()),
                "coverage": self._coverage(results, joined.window_probabilities[:, -1] < 0.5),
                "accuracy": float(chance.mean()),
            },
            "sensor_question": self._question(results),
        }

    def _coverage(self, results: WindowResults, inside: Flags) -> float | None:
        """Return the share of windows within the range of the training data."""
        if self._chains.limit is None:
            return None
        covered = self.package.description["decision"]["covered_distance"]
        if covered is not None and results.distance is not None:
            inside = inside & (results.distance <= covered)
        return float(inside.mean())

    def _question(self, results: WindowResults) -> str | None:
        """Return the most frequent question about the sensor, if most windows raise one."""
        numbers = results.question
        if numbers is None or (numbers > 0).mean() <= 0.5:
            return None
        question: str = self.package.description["questions"][int(np.bincount(numbers[numbers > 0]).argmax())]
        return question


def _method_of(package: EdgePackage, *, healthy_start: bool) -> EdgeMethod:
    match package.description["method"]:
        case "source":
            return FrozenMethod(package)
        case "commissioning":
            return CommissionedEnsemble(package, healthy=healthy_start)
        case "change":
            return ChangeDetector(package, healthy=healthy_start)
        case "reference":
            return ReferenceNetwork(package)
        case name:
            raise EdgeError(f"method {name}; expected source, commissioning, change or reference: export again")


def _nothing(state: str) -> dict[str, Any]:
    """Return what an event says if no window is diagnosed."""
    return {
        "verdict": state,
        "probabilities": {},
        "accepted": None,
        "state": state,
        "alarm": None,
        "trust": None,
        "sensor_question": None,
    }
