"""What DANN and CAL share: an adversary that looks for the operating condition in the features of F.

Eq. (3): min over F and G, max over D of L_cls - lambda L_d.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from cgsa.config import stored_if_given
from cgsa.errors import ConfigError
from cgsa.nn.reversal import adversarial_coefficient, reverse_gradient
from cgsa.offline.base import Batch, Losses, Objective, ObjectiveConfig, Opponent, Phase


@dataclass(frozen=True)
class AdversarialConfig(ObjectiveConfig):
    """Settings that DANN and CAL share."""

    lr: float = 3e-4
    """Adversarial training needs smaller steps than plain training to stay stable."""
    max_gradient_norm: float | None = 5.0
    """F can raise the discriminator's loss without bound; clipping keeps steps small."""
    gamma: float = 10.0
    """How fast the adversarial coefficient rises, eq. (4)."""
    adversary_weight: float = field(default=1.0, metadata=stored_if_given())
    """Factor of lambda in the gradient that F receives. Eq. (3) weights L_d by the lambda of eq. (4) alone, which ends
    at one; the paper does not say on which scale the losses are. D learns at full strength whatever this is; with 0 it
    learns from features that hide nothing on purpose."""
    steps: Literal["joint", "alternating"] = field(default="joint", metadata=stored_if_given())
    """Eq. (3) is one objective with a minimum and a maximum, and the paper does not say how it is reached: by one step
    of all modules with a reversed gradient (``joint``), or by a step of D and then one of F and G (``alternating``), as
    in CIDA's code."""

    def __post_init__(self) -> None:
        if self.gamma <= 0 or self.lr <= 0 or self.adversary_weight < 0:
            raise ConfigError("gamma and lr must be positive, adversary_weight must not be negative")


class AdversaryOutput(NamedTuple):
    """The loss of an adversary on a batch."""

    loss: Tensor
    response: Tensor | None = None
    """Its mean, if it regresses the condition."""


class AdversarialObjective(Objective):
    """One phase over F, G and an adversary."""

    name: ClassVar[str]
    """Name of the phase."""
    term: ClassVar[str]
    """Name of the adversary's loss in the log."""
    config: AdversarialConfig

    @property
    @abstractmethod
    def adversary(self) -> nn.Module:
        """The module that works against F."""

    @abstractmethod
    def adversary_output(self, features: Tensor, batch: Batch) -> AdversaryOutput:
        """Return L_d for the features of a batch."""

    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """One phase; with alternating steps, the adversary takes its own first."""
        modules = (self.network, self.adversary)
        if self.config.steps == "joint":
            return (Phase(self.name, epochs, modules, self.on_views(self._joint_loss)),)
        opponent = Opponent(self.adversary, self.on_views(self._adversary_loss))
        return (Phase(self.name, epochs, modules, self.on_views(self._own_loss), opponent),)

    def _joint_loss(self, batch: Batch, progress: Tensor) -> Losses:
        features = self.network.features(batch.x, batch.reference)
        scores = self.network.classify(features)
        classification = self.classification(scores, batch.label)  # eq. (2)
        reversed_features = reverse_gradient(features, self._coefficient(progress))
        found = self.adversary_output(reversed_features, batch)
        # D minimises L_d; the reversal gives F the gradient of -lambda L_d, eq. (3).
        terms = {"classification": classification, self.term: found.loss}
        return Losses(classification + found.loss, terms, scores, found.response)

    def _adversary_loss(self, batch: Batch, _progress: Tensor) -> Losses:
        with torch.no_grad():
            features = self.network.features(batch.x, batch.reference)
        return Losses(self.adversary_output(features, batch).loss)

    def _own_loss(self, batch: Batch, progress: Tensor) -> Losses:
        features = self.network.features(batch.x, batch.reference)
        scores = self.network.classify(features)
        classification = self.classification(scores, batch.label)
        found = self.adversary_output(features, batch)
        terms = {"classification": classification, self.term: found.loss}
        return Losses(classification - self._coefficient(progress) * found.loss, terms, scores, found.response)

    def _coefficient(self, progress: Tensor) -> Tensor:
        """Return lambda, eq. (4), with its weight."""
        return self.config.adversary_weight * adversarial_coefficient(progress, self.config.gamma)
