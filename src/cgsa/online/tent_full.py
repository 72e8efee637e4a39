"""Tent-Full: test-time entropy minimisation over all weights.

D. Wang, E. Shelhamer, S. Liu, B. Olshausen and T. Darrell, "Tent: Fully
Test-Time Adaptation by Entropy Minimization", ICLR 2021.

Tent renews the statistics of BatchNorm layers and learns their scales and
shifts alone. This network has no such layer, so every weight is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.losses import entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class TentFullConfig(MethodConfig):
    """Settings of Tent-Full."""

    lr: float = 1e-5
    """Learning rate of Adam. Tent's 1e-3 is for scales and shifts; all weights at once bear 1e-6 to 1e-4."""

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise ConfigError(f"lr {self.lr:g}; expected lr > 0")


class TentFull(AdaptingMethod):
    """The model learns to be sure of every window, right or wrong.

    It is never set back, so a stream of one class can teach it to see nothing else.
    """

    Config: ClassVar[type[MethodConfig]] = TentFullConfig
    summary: ClassVar[str] = "entropy of every window minimised over all weights (Tent)"

    def start(self) -> None:
        """Copy the source model f_theta."""
        self._model = self.copy_network(trainable=True)
        self.networks = {"model": self._model}
        self.optimizers = {"model": make_adam(self._model.parameters(), self.config.lr)}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the model's class probabilities."""
        return torch.softmax(self._model(x.to(self.device, torch.float32)), dim=1)

    def _step(self, x: Tensor) -> StepOutput:
        # Forward: the prediction that counts. Its graph serves the loss too.
        scores = self._model(x)
        probabilities = torch.softmax(scores.detach(), dim=1)

        # Backward (section 3.1): Shannon entropy H(y) = - sum_c p(y_c) log p(y_c), averaged over the batch.
        uncertainty = entropy(scores)
        self.optimizers["model"].zero_grad()
        torch.autograd.backward(uncertainty.mean())
        self.optimizers["model"].step()

        accepted = torch.ones(len(x), dtype=torch.bool, device=self.device)
        return StepOutput(probabilities, accepted, {"entropy": uncertainty.detach()})
