"""SAR: sharpness-aware and reliable entropy minimisation.

S. Niu, J. Wu, Y. Zhang, Z. Wen, Y. Chen, P. Zhao and M. Tan, "Towards Stable
Test-Time Adaptation in Dynamic Wild World", ICLR 2023.

SAR learns the scales and shifts of the lower normalisation layers with SGD.
This network has none, so every weight is learnt, with Adam as in the other
methods. The entropy that triggers recovery is given for the 1000 classes of
ImageNet; here it is the same fraction of the largest entropy, ln K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import cast

import torch
from torch import Tensor
from torch.func import functional_call

from cgsa.nn.losses import entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput

IMAGENET_CLASSES = 1000


@dataclass(frozen=True)
class SarConfig(MethodConfig):
    """Settings of SAR."""

    lr: float = 1e-5
    """Learning rate of Adam, as in Tent-Full, which has the same loss and weights."""
    margin: float = 0.4
    """E_0 as a fraction of ln K: windows of lower entropy are reliable (0.4 in the paper)."""
    rho: float = 0.05
    """Radius of the neighbourhood in which the loss should be flat (0.05 in the paper)."""
    momentum: float = 0.9
    """Momentum of the smoothed entropy e_m (0.9 in the paper)."""
    recovery: float = 0.2
    """e_0, the smoothed entropy below which the model counts as collapsed, for 1000 classes; 0.04 for four."""

    def __post_init__(self) -> None:
        shares = 0 < self.margin <= 1 and 0 <= self.momentum < 1
        self.check(
            *("lr", "margin", "rho", "momentum", "recovery"),
            valid=shares and self.lr > 0 and self.rho >= 0 and self.recovery >= 0,
            expected="lr > 0, 0 < margin <= 1, rho >= 0, 0 <= momentum < 1 and recovery >= 0",
        )


class Sar(AdaptingMethod):
    """Minimises the entropy of reliable windows towards flat minima; a collapsed model is reset."""

    Config = SarConfig
    summary = "entropy of reliable windows minimised towards flat minima, with recovery (SAR)"

    def start(self) -> None:
        """Copy the source model, once to learn and once to recover from."""
        self._anchor = self.copy_network(trainable=False)
        self._model = self.add_network("model", self.config.lr)
        self._reset_smoothed_entropy()
        largest = log(len(self.bundle.manifest.classes))
        self._margin = self.config.margin * largest
        self._recovery = self.config.recovery * largest / log(IMAGENET_CLASSES)

    def _step(self, x: Tensor) -> StepOutput:
        # First pass: the prediction, and the reliable windows S(x) of eq. (2).
        scores = self._model(x)
        uncertainty = entropy(scores)
        reliable = uncertainty.detach() < self._margin
        accepted = torch.zeros_like(reliable)
        perturbed_entropy = torch.full_like(reliable, torch.nan, dtype=uncertainty.dtype)

        if bool(reliable.any()):
            # Eq. (4): epsilon = rho g / |g|, the step that increases the loss most.
            weights = dict(self._model.named_parameters())
            gradients = torch.autograd.grad(uncertainty[reliable].mean(), list(weights.values()))
            steps = _steepest_ascent(gradients, self.config.rho)
            perturbed = {
                name: (weight.detach() + step).requires_grad_()
                for (name, weight), step in zip(weights.items(), steps, strict=True)
            }

            # Second pass, at theta + epsilon: a window may no longer be reliable there.
            second = entropy(cast(Tensor, functional_call(self._model, perturbed, (x[reliable],))))
            still = second.detach() < self._margin
            perturbed_entropy[reliable] = second.detach()
            accepted[reliable] = still
            if bool(still.any()):
                self._learn(second[still].mean(), list(perturbed.values()))

        evidence = {"entropy": uncertainty.detach(), "perturbed_entropy": perturbed_entropy}
        return StepOutput(torch.softmax(scores.detach(), dim=1), accepted, evidence)

    def _learn(self, loss: Tensor, perturbed: Sequence[Tensor]) -> None:
        """Step from theta along the gradient at theta + epsilon, eqs. (3) and (5); recover from a collapse."""
        for weight, gradient in zip(self._model.parameters(), torch.autograd.grad(loss, perturbed), strict=True):
            weight.grad = gradient
        self.optimizers["model"].step()

        past, new = self.memory["smoothed_entropy"], loss.detach()
        smoothed = torch.where(past.isnan(), new, self.config.momentum * past + (1 - self.config.momentum) * new)
        self.memory["smoothed_entropy"] = smoothed
        if bool(smoothed < self._recovery):
            # Return to the source weights. The smoothed entropy restarts, or it would trigger recovery forever.
            self._model.load_state_dict(self._anchor.state_dict())
            self.optimizers = {"model": make_adam(self._model.parameters(), self.config.lr)}
            self._reset_smoothed_entropy()

    def _reset_smoothed_entropy(self) -> None:
        self.memory["smoothed_entropy"] = torch.tensor(torch.nan, device=self.device)


def _steepest_ascent(gradients: Sequence[Tensor], rho: float) -> list[Tensor]:
    """Return the step of length ``rho`` along the gradient; zero if the gradient is zero."""
    length = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    return [gradient * (rho / (length + 1e-12)) for gradient in gradients]
