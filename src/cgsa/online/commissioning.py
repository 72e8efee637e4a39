"""Commissioning: a healthy reference of the machine, used where the model would otherwise be wrong about it.

A machine is known to be healthy for a while when monitoring starts. If the frozen
model agrees that it is healthy, it needs no help, and nothing is changed: on such
machines a reference costs as often as it helps. If it does not, it is evidently
wrong about this machine, and the scores are shifted by the machine's reference,
just far enough for the start to count as healthy. No weight is ever changed, so
nothing that comes later can teach the model that it is normal.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.nn.ensemble import Ensemble
from cgsa.nn.novelty import EnsembleDistance
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.reference import reference_reasons

SHARES = (0.5, 0.75, 1.0)
"""Shares of the difference to the machine's reference that may be taken off; the least one that suffices is used."""
MIN_WINDOWS = 4
"""Least windows of the healthy start."""


@dataclass(frozen=True)
class CommissioningConfig(MethodConfig):
    """Settings of the method."""

    seconds: float = 1.0
    """How long the healthy start is observed, from the end of the first window on."""

    def __post_init__(self) -> None:
        self.check("seconds", valid=self.seconds > 0, expected="a positive number")


class Commissioning(AdaptingMethod):
    """Diagnoses with an ensemble; if the healthy start does not look healthy to it, relative to a reference."""

    Config = CommissioningConfig
    summary = "a healthy reference of the machine where the ensemble needs one; no weight is changed"
    needs = frozenset({"ensemble"})

    def start(self) -> None:
        """Start without a reference, and with an empty span."""
        self._ensemble: Ensemble = deepcopy(self.bundle.require_ensemble()).to(self.device)
        known = self.bundle.known
        self._distance = deepcopy(known).to(self.device) if isinstance(known, EnsembleDistance) else None
        manifest = self.bundle.manifest
        seconds = manifest.window.step / manifest.sample_rate
        self._wanted = max(MIN_WINDOWS, round(self.config.seconds / seconds))
        shape = (len(self._ensemble.config.members), self._ensemble.classes)
        self.memory = {
            "shift": torch.zeros(shape, device=self.device),
            "span": torch.zeros(0, *shape, device=self.device),
            "commissioned": torch.zeros((), dtype=torch.bool, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities with the current reference."""
        scores = self._ensemble.member_scores(self._ensemble.extract(x.to(self.device, torch.float32)))
        return self._probabilities(scores - self.memory["shift"])

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        output, scores = self._output(x)
        if not bool(self.memory["commissioned"]) and output.accepted is not None:
            output.accepted[: self._wanted - len(self.memory["span"])] = True
            self._commission(scores[output.accepted])
        return output

    @torch.no_grad()
    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self._output(x)[0]

    def reasons(self, output: StepOutput) -> tuple[Tensor, tuple[str, ...]]:
        """Return why each window was used for the reference or not: codes, and their texts."""
        return reference_reasons(output)

    def _output(self, x: Tensor) -> tuple[StepOutput, Tensor]:
        """Return the diagnosis of windows, with no window accepted yet, and the scores of the frozen members."""
        features = self._ensemble.extract(x)
        scores = self._ensemble.member_scores(features)
        frozen, probabilities = self._probabilities(scores), self._probabilities(scores - self.memory["shift"])
        ready = self.memory["commissioned"].expand(len(x)).clone()
        evidence = {"ready": ready, AGREES_WITH_SOURCE: probabilities.argmax(dim=1) == frozen.argmax(dim=1)}
        if self._distance is not None:
            evidence["distance"] = self._distance(features)
        return StepOutput(probabilities, torch.zeros_like(ready), evidence), scores

    def _probabilities(self, scores: Tensor) -> Tensor:
        return torch.softmax(self._ensemble.combine(scores), dim=1)

    def _commission(self, scores: Tensor) -> None:
        """Add windows to the span; once it is long enough, decide whether the machine needs a reference."""
        span = self.memory["span"] = torch.cat([self.memory["span"], scores])
        if len(span) < self._wanted:
            return
        reference = span.median(dim=0).values - self._ensemble.healthy_scores()
        if not self._appears_healthy(span):
            shifts = [share * reference for share in SHARES]
            enough = [shift for shift in shifts if self._appears_healthy(span - shift)]
            self.memory["shift"] = (enough or shifts)[0 if enough else -1]
        self.memory["commissioned"] = torch.ones_like(self.memory["commissioned"])
        self.memory["span"] = span[:0].clone()

    def _appears_healthy(self, scores: Tensor) -> bool:
        """Return whether windows look healthy on average."""
        votes = torch.log_softmax(self._ensemble.combine(scores), dim=1).mean(dim=0)
        return bool(votes.argmax() == 0)
