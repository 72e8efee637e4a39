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
from cgsa.nn.reversal import adversarial_coefficient, reverse_gradient
from cgsa.offline.base import Batch, Losses, Objective, Phase
from cgsa.offline.dann import AdversarialConfig


@dataclass(frozen=True)
class CalConfig(AdversarialConfig):
    """Settings of CAL."""

    log_variance_range: tuple[float, float] = (-6.0, 4.0)
    """Bounds of log sigma^2. The paper has none; without them F can drive the likelihood to infinity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.log_variance_range[0] < self.log_variance_range[1]:
            raise ConfigError(f"log_variance_range {list(self.log_variance_range)} does not rise")


class Cal(Objective):
    """Eq. (3): min over F and G, max over D of L_cls - lambda L_d, by gradient reversal."""

    Config = CalConfig
    summary = "adversary over the continuous condition: the offline stage of CGSA"
    needs = frozenset({"labels", "condition"})

    def build(self) -> None:
        """Create D."""
        self.discriminator = ConditionDiscriminator(
            self.network.feature_width, self.discriminator_config, self.conditions
        )

    @property
    def condition_discriminator(self) -> ConditionDiscriminator:
        """D with both branches."""
        return self.discriminator

    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """One phase over F, G and D together."""
        return (Phase("cal", epochs, (self.network, self.discriminator), self._loss),)

    def _loss(self, batch: Batch, progress: Tensor) -> Losses:
        features = self.network.features(batch.x, batch.reference)
        scores = self.network.classify(features)
        classification = self.classification(scores, batch.label)  # eq. (2)
        coefficient = adversarial_coefficient(progress, self.config.gamma)  # eq. (4)
        mean, log_variance = self.discriminator(reverse_gradient(features, coefficient))
        condition = gaussian_nll(mean, log_variance.clamp(*self.config.log_variance_range), batch.condition)  # eq. (1)
        # D minimises L_d; the reversal gives F the gradient of -lambda L_d, eq. (3).
        terms = {"classification": classification, "condition": condition}
        return Losses(classification + condition, terms, scores, mean)
