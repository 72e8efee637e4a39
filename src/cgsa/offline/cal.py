"""CAL: continuous operating-condition adversarial learning with progressive training.

The offline stage of CGSA (paper, section II-B). The adversary regresses the
condition c with a mean and a variance; F learns features that do not reveal it.
With several conditions the adversary regresses each, and its losses are summed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.losses import gaussian_nll
from cgsa.offline.adversarial import AdversarialConfig, AdversarialObjective, AdversaryOutput
from cgsa.offline.base import Batch


@dataclass(frozen=True)
class CalConfig(AdversarialConfig):
    """Settings of CAL."""

    log_variance_range: tuple[float, float] = (-6.0, 4.0)
    """Bounds of log sigma^2. The paper has none; without them F can drive the likelihood to infinity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.log_variance_range[0] < self.log_variance_range[1]:
            raise ConfigError(f"log_variance_range {list(self.log_variance_range)} does not rise")


class Cal(AdversarialObjective):
    """Eq. (3) with the Gaussian likelihood of the condition as L_d."""

    Config = CalConfig
    summary = "adversary over the continuous condition: the offline stage of CGSA"
    needs = frozenset({"labels", "condition"})
    name, term = "cal", "condition"
    config: CalConfig

    def build(self) -> None:
        """Create D."""
        self.discriminator = ConditionDiscriminator(
            self.network.feature_width, self.discriminator_config, self.conditions
        )

    @property
    def condition_discriminator(self) -> ConditionDiscriminator:
        """D with both branches."""
        return self.discriminator

    @property
    def adversary(self) -> ConditionDiscriminator:
        """D, which works against F."""
        return self.discriminator

    def adversary_output(self, features: Tensor, batch: Batch) -> AdversaryOutput:
        """Return L_d, eq. (1), and the mean of the condition."""
        mean, log_variance = self.discriminator(features)
        clamped = log_variance.clamp(*self.config.log_variance_range)
        return AdversaryOutput(gaussian_nll(mean, clamped, batch.condition), mean)
