"""What an offline objective is: a loss over labelled windows, in one or more phases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import Schedule


@dataclass(frozen=True)
class Batch:
    """Labelled windows as training sees them."""

    x: Tensor
    """Raw windows, (windows, channels, length), or what the front-end made of them, (windows, features)."""
    label: Tensor
    """Index of the class."""
    condition: Tensor
    """Operating conditions c, each 0 to 1 over its training range, (windows, conditions)."""
    part: Tensor
    """Index of the offline segment, DANN's discrete domain."""
    generator: torch.Generator
    """Random numbers on the device of ``x``."""
    reference: Tensor | None = None
    """A healthy reference for every window, where the network takes one."""


@dataclass(frozen=True)
class Losses:
    """The loss of a batch and what is worth logging of it."""

    total: Tensor
    """What is minimised."""
    terms: Mapping[str, Tensor] = field(default_factory=dict)
    """Named parts of the total."""
    scores: Tensor | None = None
    """Class scores, for the training accuracy."""
    response: Tensor | None = None
    """The discriminator's mean, (windows, conditions), for its R^2."""


@dataclass(frozen=True)
class Phase:
    """A stretch of training with its own loss over its own modules."""

    name: str
    epochs: int
    modules: tuple[nn.Module, ...]
    """What this phase trains; everything else stays as it is."""
    loss: Callable[[Batch, Tensor], Losses]
    """Loss of a batch at a training progress p in [0, 1), a tensor so that a captured step can be told another one."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """Settings every objective has."""

    lr: float = 1e-3
    """Learning rate of Adam; the paper does not state it."""
    max_gradient_norm: float | None = None
    """Clip the gradient of a step to this norm; none means no clipping."""
    weight_decay: float = 0.0
    """Share of every weight that a step of size one takes away (AdamW); the paper states none."""
    schedule: Schedule = "constant"
    """``one_cycle`` raises the learning rate to ``lr`` over the first third and lets it fall to zero."""
    label_smoothing: float = 0.0
    """Share of the target that is spread over all classes; the paper states none."""


class Objective(nn.Module, ABC):
    """Base of the objectives; a subclass says in :meth:`phases` what is trained and how.

    Parameters
    ----------
    config
        An instance of the class's ``Config``.
    network
        The network to train.
    parts
        How many offline segments there are.
    conditions
        How many operating conditions there are.
    discriminator
        Shape of the discriminator, for those that have one.
    """

    Config: ClassVar[type[ObjectiveConfig]] = ObjectiveConfig
    summary: ClassVar[str] = ""
    """One line for lists of objectives."""
    needs: ClassVar[frozenset[str]] = frozenset({"labels"})
    """What the training data must carry: ``labels``, ``segments``, ``condition``; ``raw`` to see raw windows always."""

    def __init__(
        self,
        config: Any,
        network: DiagnosisNet,
        *,
        parts: int,
        conditions: int,
        discriminator: DiscriminatorConfig,  # noqa: ARG002 - for the subclasses that have one
    ) -> None:
        super().__init__()
        self.config = config
        self.parts = parts
        self.conditions = conditions
        # In a tuple, so that the network does not count as a part of the objective.
        self._network = (network,)

    @property
    def network(self) -> DiagnosisNet:
        """The network that is trained."""
        return self._network[0]

    @property
    def condition_discriminator(self) -> ConditionDiscriminator | None:
        """What online methods get as D; none where the objective trains no such thing."""
        return None

    def classification(self, scores: Tensor, label: Tensor) -> Tensor:
        """Return the cross-entropy of class scores, eq. (2)."""
        return cross_entropy(scores, label, label_smoothing=self.config.label_smoothing)

    @abstractmethod
    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """Return the phases of training; the main one lasts ``epochs``."""
