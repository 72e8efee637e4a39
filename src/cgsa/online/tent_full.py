"""Tent-Full: test-time entropy minimisation over all weights.

D. Wang, E. Shelhamer, S. Liu, B. Olshausen and T. Darrell, "Tent: Fully
Test-Time Adaptation by Entropy Minimization", ICLR 2021.

Tent re-estimates the statistics of BatchNorm layers and learns only their
scales and shifts. This network has no such layer, so every weight is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.nn.losses import entropy
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class TentFullConfig(MethodConfig):
    """Settings of Tent-Full."""

    lr: float = 1e-5
    """Learning rate of Adam. Tent's 1e-3 is for scales and shifts; all weights at once tolerate 1e-6 to 1e-4."""

    def __post_init__(self) -> None:
        self.check("lr", valid=self.lr > 0, expected="lr > 0")


class TentFull(AdaptingMethod):
    """Learns to be certain of every window, right or wrong.

    It never recovers: on a stream of one class it may learn to predict nothing else.
    """

    Config = TentFullConfig
    summary = "entropy of every window minimised over all weights (Tent)"

    def start(self) -> None:
        """Copy the source model f_theta."""
        self._model = self.add_network("model", self.config.lr)

    def _step(self, x: Tensor) -> StepOutput:
        # Forward: the prediction, whose graph also serves the loss.
        scores = self._model(x)
        probabilities = torch.softmax(scores.detach(), dim=1)

        # Backward (section 3.1): Shannon entropy H(y) = - sum_c p(y_c) log p(y_c), averaged over the batch.
        uncertainty = entropy(scores)
        minimise(self.optimizers["model"], uncertainty.mean())

        accepted = torch.ones(len(x), dtype=torch.bool, device=self.device)
        return StepOutput(probabilities, accepted, {"entropy": uncertainty.detach()})
