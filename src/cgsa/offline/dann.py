"""DANN: features that do not reveal the discrete operating domain.

Y. Ganin et al., "Domain-Adversarial Training of Neural Networks", JMLR 2016.
The offline segments T1, T2, T3 are the domains, as in the paper's ablation.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.nn.condition import DomainDiscriminator
from cgsa.offline.adversarial import AdversarialConfig, AdversarialObjective, AdversaryOutput
from cgsa.offline.base import Batch


class Dann(AdversarialObjective):
    """Cross-entropy on the class, and an adversary that classifies the domain."""

    Config = AdversarialConfig
    summary = "adversary over discrete domains: the offline segments"
    needs = frozenset({"labels", "segments"})
    name, term = "dann", "domain"

    def build(self) -> None:
        """Create the adversary."""
        self.domain_discriminator = DomainDiscriminator(
            self.network.feature_width, self.parts, self.discriminator_config
        )

    @property
    def adversary(self) -> DomainDiscriminator:
        """The classifier of domains."""
        return self.domain_discriminator

    def adversary_output(self, features: Tensor, batch: Batch) -> AdversaryOutput:
        """Return the cross-entropy on the domain."""
        return AdversaryOutput(cross_entropy(self.domain_discriminator(features), batch.part))
