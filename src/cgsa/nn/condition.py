"""Discriminators that estimate the operating conditions from features."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn

from cgsa.errors import ConfigError


@dataclass(frozen=True)
class DiscriminatorConfig:
    """Shape of a discriminator.

    The paper calls each branch a four-layer MLP, and its table implies 40,868
    to 41,867 parameters for the mean branch: 64-128-128-128-1 has 41,473. With
    a tap of 256, 256-128-64-1 has 41,217, and with affine normalisation 41,601;
    the first one would have 42,241 with it, which is too many.
    """

    hidden: tuple[int, ...] | None = None
    """Hidden widths; None takes the paper's for the tap in use."""
    norm: Literal["batch", "none", "affine"] = "batch"
    """Normalise each hidden layer over the batch, as CIDA's discriminators do; the paper does not say. ``batch`` has no
    scales and shifts, for which the table leaves no parameters with a tap of 64; ``affine`` has. Without the norm, F
    need not hide the condition: it can raise D's loss by ever larger features, until nearly every unit of D is dead and
    its response is constant."""

    def widths(self, features: int) -> tuple[int, ...]:
        """Return the hidden widths for features of this width."""
        if self.hidden is not None:
            return self.hidden
        return (128, 64) if features == 256 else (128, 128, 128)

    def __post_init__(self) -> None:
        if self.hidden is not None and min(self.hidden, default=1) < 1:
            raise ConfigError(f"hidden widths {list(self.hidden)}; expected positive numbers")


class ConditionDiscriminator(nn.Module):
    """The paper's two branches: mean and log-variance of a Gaussian over each condition c; the paper has one."""

    def __init__(self, features: int, config: DiscriminatorConfig, conditions: int = 1) -> None:
        super().__init__()
        widths = (features, *config.widths(features), conditions)
        self.mean = _branch(widths, config)
        self.log_variance = _branch(widths, config)

    def response(self, features: Tensor) -> Tensor:
        """Return the residual condition response mu, (windows, conditions)."""
        return cast(Tensor, self.mean(features))

    def folded_response(self) -> nn.Sequential:
        """Return a frozen copy of the mean branch with its normalisation folded into the linear layers."""
        layers: list[nn.Module] = []
        for module in deepcopy(self.mean):
            if isinstance(module, nn.BatchNorm1d):
                _fold(layers[-1], module)
            else:
                layers.append(module)
        return nn.Sequential(*layers).eval().requires_grad_(requires_grad=False)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and log sigma^2, (windows, conditions) each."""
        return self.response(features), cast(Tensor, self.log_variance(features))


class DomainDiscriminator(nn.Module):
    """DANN's classifier over discrete operating domains: the same layers, one score per domain."""

    def __init__(self, features: int, domains: int, config: DiscriminatorConfig) -> None:
        super().__init__()
        self.body = _branch((features, *config.widths(features), domains), config)

    def forward(self, features: Tensor) -> Tensor:
        """Return the domain scores, (windows, domains)."""
        return cast(Tensor, self.body(features))


def _branch(widths: Sequence[int], config: DiscriminatorConfig) -> nn.Sequential:
    """Return linear layers of these widths, with normalisation and a ReLU between them."""
    layers: list[nn.Module] = []
    for inner, outer in pairwise(widths[:-1]):
        layers.append(nn.Linear(inner, outer))
        if config.norm != "none":
            layers.append(nn.BatchNorm1d(outer, affine=config.norm == "affine"))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


@torch.no_grad()
def _fold(layer: nn.Module, norm: nn.BatchNorm1d) -> None:
    """Fold batch normalisation, in evaluation mode, into the linear layer before it."""
    if not isinstance(layer, nn.Linear) or norm.running_var is None or norm.running_mean is None:
        raise TypeError("only batch normalisation with running statistics after a linear layer can be folded")
    scale = torch.rsqrt(norm.running_var + norm.eps)
    if norm.affine:
        scale = scale * norm.weight
    layer.weight.mul_(scale[:, None])
    layer.bias.sub_(norm.running_mean).mul_(scale)
    if norm.affine:
        layer.bias.add_(norm.bias)
