"""SURGEON: activations pruned layer by layer, according to the importance of the gradient.

K. Ma, J. Tang, B. Guo, F. Dang, S. Liu, Z. Zhu, L. Wu, C. Fang, Y.-C. Chen,
Z. Yu and Y. Liu, "SURGEON: Memory-Adaptive Fully Test-Time Adaptation via
Dynamic Activation Sparsity", CVPR 2025.

Our linear layers take the place of its convolutions and BatchNorm: all are
updated and pruned. The strong view of vibration windows replaces image
augmentations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from cgsa.nn.augment import strong_view
from cgsa.nn.losses import entropy, soft_cross_entropy
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput

VIEWS = 2
"""Views in the training pass: the windows and their augmentation."""


@dataclass(frozen=True)
class SurgeonConfig(MethodConfig):
    """Settings of SURGEON, as in its authors' code."""

    lr: float = 2.2e-5
    """Learning rate of Adam for all layers; the authors' value for CIFAR-10, their smallest problem."""
    margin: float = 0.4
    """A window is reliable if its entropy is below this fraction of ln K."""
    consistency: float = 0.01
    """Weight of the consistency term, times K."""
    probe: int = 10
    """Random windows on which the importance of each layer is measured."""

    def __post_init__(self) -> None:
        self.check(
            *("lr", "margin", "consistency", "probe"),
            valid=self.lr > 0 and 0 < self.margin <= 1 and self.consistency >= 0 and self.probe >= 1,
            expected="lr > 0, 0 < margin <= 1, consistency >= 0 and probe >= 1",
        )


class Surgeon(AdaptingMethod):
    """Minimises the entropy of reliable windows, with the inputs of each layer pruned by its importance."""

    Config = SurgeonConfig
    summary = "SURGEON: entropy and consistency, activations pruned by the importance of their layer"

    def start(self) -> None:
        """Copy the model, with layers that can prune the activations kept for the gradient."""
        self._model = self.add_network("model", self.config.lr)
        self._layers = [*_make_prunable(self._model.F), *_make_prunable(self._model.G)]

    def _step(self, x: Tensor) -> StepOutput:
        # The prediction, which also gives the reliable windows (certainty-based sample selection).
        with torch.no_grad():
            scores = self._model(x)
        uncertainty = entropy(scores)
        reliable = uncertainty < self._margin
        # The mean over no window would be NaN and spread to every weight.
        if bool(reliable.any()):
            self._set_shares(self._importance(x))
            self._learn(x, reliable)
            self._set_shares([1.0] * len(self._layers))
        return StepOutput(torch.softmax(scores, dim=1), reliable, {"entropy": uncertainty})

    @property
    def _margin(self) -> float:
        return float(self.config.margin) * math.log(len(self.bundle.manifest.classes))

    def _importance(self, x: Tensor) -> list[float]:
        """Return the share of its input that each layer keeps: gradient importance times memory importance."""
        chosen = torch.randperm(len(x), device=self.device, generator=self.generator)[: self.config.probe]
        loss = entropy(self._model(x[chosen])).mean()
        gradients = torch.autograd.grad(loss, [layer.weight for layer in self._layers])

        # s = |g| / sqrt(n) * ln(M_total / M), where M is the number of activations that a layer keeps per window.
        kept = [layer.in_features for layer in self._layers]
        importance = torch.stack(
            [
                gradient.norm() / math.sqrt(gradient.numel()) * math.log(sum(kept) / size)
                for gradient, size in zip(gradients, kept, strict=True)
            ]
        )
        # Without any gradient, no layer is more important than another: none is pruned.
        largest = importance.max()
        shares: list[float] = torch.where(largest > 0, importance / largest, 1.0).tolist()
        return shares

    def _set_shares(self, shares: list[float]) -> None:
        for layer, share in zip(self._layers, shares, strict=True):
            layer.share = share

    def _learn(self, x: Tensor, reliable: Tensor) -> None:
        """Take one step on the weighted entropy of the reliable windows and the consistency of all."""
        view = strong_view(x, self._model.frontend.deviation, self.generator)
        # Both views share one forward pass, so that their common loss takes one backward pass.
        scores, augmented = self._model(torch.cat([x, view])).chunk(VIEWS)
        uncertainty = entropy(scores)[reliable]
        certainty = torch.exp(self._margin - uncertainty.detach())
        consistency = soft_cross_entropy(scores.softmax(dim=1), augmented).mean()
        loss = (certainty * uncertainty).mean() + self.config.consistency * scores.shape[1] * consistency
        minimise(self.optimizers["model"], loss)


class PrunableLinear(nn.Linear):
    """A linear layer that can keep only the largest ``share`` of its input for the gradient of its weights.

    Its output and the gradients of its input and bias are exact.
    """

    share = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x W^T + b``."""
        if self.share == 1.0 or not torch.is_grad_enabled():
            return super().forward(x)
        kept = int(self.share * x.numel() / VIEWS)
        return cast(Tensor, _PrunedProduct.apply(x, self.weight, self.bias, kept))  # type: ignore[no-untyped-call]


class _PrunedProduct(torch.autograd.Function):
    """``x W^T + b``; keeps the ``kept`` largest inputs of each view for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kept: int) -> Tensor:
        flat = x.reshape(VIEWS, -1)
        index = flat.abs().topk(kept, dim=1, sorted=False).indices
        # Half the bytes of PyTorch's indices: pruning is meant to save memory.
        ctx.save_for_backward(flat.gather(1, index), index.to(torch.int32), weight)
        ctx.shape = x.shape
        return linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        values, index, weight = ctx.saved_tensors
        (gradient,) = gradients
        pruned = values.new_zeros(VIEWS, ctx.shape.numel() // VIEWS).scatter_(1, index.to(torch.int64), values)
        to_input = gradient @ weight if ctx.needs_input_grad[0] else None
        return to_input, gradient.T @ pruned.view(ctx.shape), gradient.sum(dim=0), None


def _make_prunable(chain: nn.Sequential) -> list[PrunableLinear]:
    """Replace the linear layers of a chain by prunable ones with the same parameters, and return them."""
    layers = []
    for number, layer in enumerate(chain):
        if isinstance(layer, nn.Linear):
            with torch.device("meta"):
                prunable = PrunableLinear(layer.in_features, layer.out_features)
            prunable.weight, prunable.bias = layer.weight, layer.bias
            chain[number] = prunable
            layers.append(prunable)
    return layers
