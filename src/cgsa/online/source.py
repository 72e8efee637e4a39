"""Source: the trained model, frozen; the baseline of every adapting method."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from cgsa.nn.ensemble import Ensemble
from cgsa.nn.frame_sums import RecentFrames
from cgsa.online.base import OnlineMethod, StepOutput


class FrozenSource(OnlineMethod):
    """Predicts with the source model and never adapts."""

    summary = "the source model, frozen; no adaptation"
    uses_conditions = True

    def reset(self) -> None:
        """Take a fresh copy of the source model."""
        self._model = deepcopy(self.bundle.model).to(self.device).eval()
        self._known, self._recent = self.bundle.checks_on(self.device), RecentFrames()

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the source model's class probabilities."""
        return torch.softmax(self._model(x.to(self.device, torch.float32)), dim=1)

    def state_dict(self) -> dict[str, Tensor]:
        """Return nothing: a frozen model has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: a frozen model has no state."""

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        if not isinstance(self._model, Ensemble):
            return StepOutput(self.predict(x))
        features = self._model.extract(x, self._recent)
        factors = self._model.speed_factors(self.known_conditions)
        scores = self._model.combine(self._model.member_scores(features, factors), factors)
        evidence = {} if self._known is None else self._known.evidence(features, x)
        return StepOutput(torch.softmax(scores, dim=1), evidence=evidence)

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return replace(self._step(x), accepted=torch.zeros(len(x), dtype=torch.bool, device=self.device))
