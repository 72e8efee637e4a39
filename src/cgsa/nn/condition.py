"""Discriminators that tell the operating condition from features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from cgsa.errors import ConfigError
from cgsa.nn.mlp import mlp


@dataclass(frozen=True)
class DiscriminatorConfig:
    """Shape of a discriminator.

    The paper calls each branch a four-layer MLP and its table leaves 40,868 to
    41,867 parameters for the mean branch: 64-128-128-128-1 has 41,473. With a
    tap of 256, 256-128-64-1 has 41,217.
    """

    hidden: tuple[int, ...] | None = None
    """Hidden widths; none means the paper's for the tap in use."""

    def widths(self, features: int) -> tuple[int, ...]:
        """Return the hidden widths for features of this width."""
        if self.hidden is not None:
            return self.hidden
        return (128, 64) if features == 256 else (128, 128, 128)

    def __post_init__(self) -> None:
        if self.hidden is not None and min(self.hidden, default=1) < 1:
            raise ConfigError(f"hidden widths {list(self.hidden)}; expected positive numbers")


class ConditionDiscriminator(nn.Module):
    """The paper's two branches: mean and log-variance of a Gaussian over the condition c."""

    def __init__(self, features: int, config: DiscriminatorConfig) -> None:
        super().__init__()
        widths = (features, *config.widths(features), 1)
        self.mean = mlp(widths)
        self.log_variance = mlp(widths)

    def response(self, features: Tensor) -> Tensor:
        """Return the residual condition response mu, one number a window."""
        return cast(Tensor, self.mean(features)).squeeze(1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and log sigma^2, one number a window each."""
        return self.response(features), cast(Tensor, self.log_variance(features)).squeeze(1)


class DomainDiscriminator(nn.Module):
    """DANN's classifier over discrete operating domains; same body, one score a domain."""

    def __init__(self, features: int, domains: int, config: DiscriminatorConfig) -> None:
        super().__init__()
        self.body = mlp((features, *config.widths(features), domains))

    def forward(self, features: Tensor) -> Tensor:
        """Return the domain scores, (windows, domains)."""
        return cast(Tensor, self.body(features))
