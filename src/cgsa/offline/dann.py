"""DANN: features that do not reveal the discrete operating domain.

Y. Ganin et al., "Domain-Adversarial Training of Neural Networks", JMLR 2016.
The offline segments T1, T2, T3 are the domains, as in the paper's ablation.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.errors import ConfigError
from cgsa.nn.condition import DomainDiscriminator
from cgsa.nn.reversal import adversarial_coefficient, reverse_gradient
from cgsa.offline.base import Batch, Losses, Objective, ObjectiveConfig, Phase


@dataclass(frozen=True)
class AdversarialConfig(ObjectiveConfig):
    """Settings that DANN and CAL share."""

    lr: float = 3e-4
    """Adversarial training needs smaller steps than plain training to stay stable."""
    max_gradient_norm: float | None = 5.0
    """F can raise the discriminator's loss without bound; clipping keeps steps small."""
    gamma: float = 10.0
    """How fast the adversarial coefficient rises, eq. (4)."""

    def __post_init__(self) -> None:
        if self.gamma <= 0 or self.lr <= 0:
            raise ConfigError("gamma and lr must be positive")


class Dann(Objective):
    """Cross-entropy on the class, and an adversary that classifies the domain."""

    Config = AdversarialConfig
    summary = "adversary over discrete domains: the offline segments"
    needs = frozenset({"labels", "segments"})

    def build(self) -> None:
        """Create the adversary."""
        self.domain_discriminator = DomainDiscriminator(
            self.network.feature_width, self.parts, self.discriminator_config
        )

    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """One phase over F, G and the adversary together."""
        return (Phase("dann", epochs, (self.network, self.domain_discriminator), self._loss),)

    def _loss(self, batch: Batch, progress: Tensor) -> Losses:
        features = self.network.features(batch.x, batch.reference)
        scores = self.network.classify(features)
        classification = self.classification(scores, batch.label)
        coefficient = adversarial_coefficient(progress, self.config.gamma)
        domain = cross_entropy(self.domain_discriminator(reverse_gradient(features, coefficient)), batch.part)
        return Losses(classification + domain, {"classification": classification, "domain": domain}, scores)
