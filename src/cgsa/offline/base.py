"""Base class of offline objectives: a loss over labelled windows, in one or more phases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cgsa.config import stored_if_given
from cgsa.nn.augment import strong_view
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import Schedule


@dataclass(frozen=True)
class Batch:
    """A batch of labelled training windows."""

    x: Tensor
    """Raw windows, (windows, channels, length), or the front-end's output for them, (windows, features)."""
    label: Tensor
    """Index of the class."""
    condition: Tensor
    """Operating conditions c, each scaled to 0 to 1 over its training range, (windows, conditions)."""
    part: Tensor
    """Index of the offline segment, DANN's discrete domain."""
    generator: torch.Generator
    """Random numbers on the device of ``x``."""
    reference: Tensor | None = None
    """A healthy reference per window, if the network uses one."""


@dataclass(frozen=True)
class Losses:
    """The loss of a batch and what is logged with it."""

    total: Tensor
    """The loss that is minimised."""
    terms: Mapping[str, Tensor] = field(default_factory=dict)
    """Named parts of the total."""
    scores: Tensor | None = None
    """Class scores, for the training accuracy."""
    response: Tensor | None = None
    """The discriminator's mean, (windows, conditions), for its R^2."""


LossFunction: TypeAlias = Callable[[Batch, Tensor], Losses]
"""Loss of a batch at a training progress p in [0, 1), a tensor so that a captured step can receive a new value."""
Views = Literal["contrast", "every", "none"]
"""Which objectives train on augmented views; see :class:`~cgsa.offline.config.TrainConfig`."""


@dataclass(frozen=True)
class Opponent:
    """A module that takes a step down its own loss before the others take theirs."""

    module: nn.Module
    loss: LossFunction


@dataclass(frozen=True)
class Phase:
    """A part of training with its own loss and trained modules."""

    name: str
    epochs: int
    modules: tuple[nn.Module, ...]
    """The modules that this phase trains; all others stay unchanged."""
    loss: LossFunction
    opponent: Opponent | None = None
    """One of the modules that learns in steps of its own; None if all learn together."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """Settings that all objectives have."""

    lr: float = 1e-3
    """Learning rate of Adam; the paper does not state it."""
    max_gradient_norm: float | None = None
    """Clip the gradient of a step to this norm; None means no clipping."""
    weight_decay: float = 0.0
    """Weight decay of AdamW, for all modules that are trained; the paper states none."""
    coupled_decay: bool = field(default=False, metadata=stored_if_given())
    """Add the weight decay to the gradient, as Adam in CIDA's code does (there 5e-4), instead of decoupling it."""
    schedule: Schedule = "constant"
    """``one_cycle`` raises the learning rate to ``lr`` over the first third, then lowers it to zero. ``halving`` lowers
    it gradually to a half with every quarter of the training, as CIDA's code does. The paper states no rate."""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes; the paper states none."""


class Objective(nn.Module, ABC):
    """Base of the objectives; a subclass defines in :meth:`phases` what is trained and how.

    ``config`` is an instance of the class's ``Config``; ``parts`` is the number of offline segments.
    """

    Config: ClassVar[type[ObjectiveConfig]] = ObjectiveConfig
    summary: ClassVar[str] = ""
    """One line for lists of objectives."""
    needs: ClassVar[frozenset[str]] = frozenset({"labels"})
    """What the training data must have: ``labels``, ``segments``, ``condition``; ``raw`` for raw windows always."""

    def __init__(
        self,
        config: Any,
        network: DiagnosisNet,
        *,
        parts: int,
        conditions: int,
        discriminator: DiscriminatorConfig,
        views: Views = "contrast",
    ) -> None:
        super().__init__()
        self.views = views
        self.config = config
        self.parts = parts
        self.conditions = conditions
        self.discriminator_config = discriminator
        # In a tuple, so that the network is not a submodule of the objective.
        self._network = (network,)
        self.build()

    def build(self) -> None:
        """Create the modules that the objective trains besides the network."""

    @property
    def network(self) -> DiagnosisNet:
        """The network that is trained."""
        return self._network[0]

    @property
    def condition_discriminator(self) -> ConditionDiscriminator | None:
        """The discriminator D for online methods; None if the objective trains none."""
        return None

    def classification(self, scores: Tensor, label: Tensor) -> Tensor:
        """Return the cross-entropy of class scores, eq. (2)."""
        return cross_entropy(scores, label, label_smoothing=self.config.label_smoothing)

    def on_views(self, loss: LossFunction) -> LossFunction:
        """Return a loss over an augmented view of every window, if all objectives train on views."""
        if self.views != "every":
            return loss

        def loss_of_view(batch: Batch, progress: Tensor) -> Losses:
            return loss(replace(batch, x=self.view(batch)), progress)

        return loss_of_view

    def view(self, batch: Batch) -> Tensor:
        """Return an augmented view of every window."""
        return strong_view(batch.x, self.network.frontend.deviation, batch.generator)

    @abstractmethod
    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """Return the phases of training; the main one lasts ``epochs``."""
