"""SAR: sharpness-aware and reliable entropy minimisation.

S. Niu, J. Wu, Y. Zhang, Z. Wen, Y. Chen, P. Zhao and M. Tan, "Towards Stable
Test-Time Adaptation in Dynamic Wild World", ICLR 2023.

SAR learns the scales and shifts of the lower normalisation layers with SGD.
This network has none, so every weight is learnt, with the Adam of the other
methods. The entropy that sets the model back is given for the 1000 classes of
ImageNet; here it is the same share of the largest entropy, ln K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.func import functional_call

from cgsa.errors import ConfigError
from cgsa.nn.losses import entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput

IMAGENET_CLASSES = 1000


@dataclass(frozen=True)
class SarConfig(MethodConfig):
    """Settings of SAR."""

    lr: float = 1e-5
    """Learning rate of Adam, as in Tent-Full: the loss is the same, and so are the weights."""
    margin: float = 0.4
    """E_0 as a share of ln K: windows of less entropy are reliable (0.4 in the paper)."""
    rho: float = 0.05
    """Radius of the neighbourhood in which the loss shall be flat (0.05 in the paper)."""
    momentum: float = 0.9
    """Weight of the past in the smoothed entropy e_m (0.9 in the paper)."""
    recovery: float = 0.2
    """e_0, the smoothed entropy below which the model has collapsed, for 1000 classes; 0.04 for four."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.rho < 0 or not 0 < self.margin <= 1 or not 0 <= self.momentum < 1 or self.recovery < 0:
            raise ConfigError(
                f"lr {self.lr:g}, margin {self.margin:g}, rho {self.rho:g}, momentum {self.momentum:g}, "
                f"recovery {self.recovery:g}; expected lr > 0, 0 < margin <= 1, rho >= 0, 0 <= momentum < 1 "
                f"and recovery >= 0"
            )


class Sar(AdaptingMethod):
    """Entropy of reliable windows is minimised where the loss is flat; a collapsed model starts anew."""

    Config: ClassVar[type[MethodConfig]] = SarConfig
    summary: ClassVar[str] = "entropy of reliable windows minimised towards flat minima, with recovery (SAR)"

    def start(self) -> None:
        """Copy the source model, once to learn and once to recover from."""
        self._source = self.copy_network(trainable=False)
        self._model = self.copy_network(trainable=True)
        self.networks = {"model": self._model}
        self.optimizers = {"model": make_adam(self._model.parameters(), self.config.lr)}
        self._forget_entropy()
        largest = log(len(self.bundle.manifest.classes))
        self._margin = self.config.margin * largest
        self._recovery = self.config.recovery * largest / log(IMAGENET_CLASSES)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the model's class probabilities."""
        return torch.softmax(self._model(x.to(self.device, torch.float32)), dim=1)

    def _step(self, x: Tensor) -> StepOutput:
        # First pass: the prediction that counts, and the reliable windows S(x) of eq. (2).
        scores = self._model(x)
        uncertainty = entropy(scores)
        reliable = uncertainty.detach() < self._margin
        accepted = torch.zeros_like(reliable)
        perturbed_entropy = torch.full_like(reliable, torch.nan, dtype=uncertainty.dtype)

        if bool(reliable.any()):
            # Eq. (4): epsilon = rho g / |g|, the step that raises the loss most.
            weights = dict(self._model.named_parameters())
            gradients = torch.autograd.grad(uncertainty[reliable].mean(), list(weights.values()))
            steps = _steepest(gradients, self.config.rho)
            perturbed = {
                name: (weight.detach() + step).requires_grad_()
                for (name, weight), step in zip(weights.items(), steps, strict=True)
            }

            # Second pass, at theta + epsilon: a window may have lost its reliability there.
            second = entropy(cast(Tensor, functional_call(self._model, perturbed, (x[reliable],))))
            still = second.detach() < self._margin
            perturbed_entropy[reliable] = second.detach()
            accepted[reliable] = still
            if bool(still.any()):
                self._learn(second[still].mean(), list(perturbed.values()))

        evidence = {"entropy": uncertainty.detach(), "perturbed_entropy": perturbed_entropy}
        return StepOutput(torch.softmax(scores.detach(), dim=1), accepted, evidence)

    def _learn(self, loss: Tensor, perturbed: Sequence[Tensor]) -> None:
        """Step from theta along the gradient at theta + epsilon, eqs. (3) and (5); recover if need be."""
        for weight, gradient in zip(self._model.parameters(), torch.autograd.grad(loss, perturbed), strict=True):
            weight.grad = gradient
        self.optimizers["model"].step()

        past, new = self.memory["smoothed_entropy"], loss.detach()
        smoothed = torch.where(past.isnan(), new, self.config.momentum * past + (1 - self.config.momentum) * new)
        self.memory["smoothed_entropy"] = smoothed
        if bool(smoothed < self._recovery):
            self._recover()

    def _recover(self) -> None:
        """Go back to the source weights; the smoothed entropy begins anew, or it would call for recovery for ever."""
        self._model.load_state_dict(self._source.state_dict())
        self.optimizers = {"model": make_adam(self._model.parameters(), self.config.lr)}
        self._forget_entropy()

    def _forget_entropy(self) -> None:
        self.memory["smoothed_entropy"] = torch.tensor(torch.nan, device=self.device)


def _steepest(gradients: Sequence[Tensor], rho: float) -> list[Tensor]:
    """Return the step of length ``rho`` along the gradient; none where the loss is level."""
    length = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    return [gradient * (rho / (length + 1e-12)) for gradient in gradients]
