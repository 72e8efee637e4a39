"""The ensemble: simple classifiers on several kinds of averaged spectra, combined by their log-probabilities.

Every *member* is one kind of features with one classifier. The scores of
the ensemble are the weighted sum of the members' log-probabilities. Weights come
from conditions, units and runs held out of training (:mod:`cgsa.offline.pool`).

A healthy reference shifts the scores: the part of a score that the features of
the healthy machine contribute is replaced, by a share, with that of the healthy
machines of the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.spectra import FeatureConfig
from cgsa.nn.trees import TREES, StackedTrees, TreeHead

CLASSIFIERS = ("logistic", "lda", "kernel", "trees")
LINEAR = ("logistic", "lda")
KERNEL_AXES, KERNEL_WAVES = 64, 1024
"""Axes and random Fourier features of a kernel classifier."""
MAX_KINDS = 64
"""Most kinds of features of an ensemble."""
LEAST_LOG_PROBABILITY = -10.0
"""However certain a member is, its vote against a class has this limit: far from training, scores have none."""


@dataclass(frozen=True)
class EnsembleConfig:
    """Which members an ensemble has: every kind of features with every classifier."""

    features: tuple[FeatureConfig, ...]
    classifiers: tuple[str, ...] = CLASSIFIERS
    """In this order: ``logistic`` is logistic regression, ``lda`` is linear discriminant analysis with a shrunk
    covariance, ``kernel`` is logistic regression with a Gaussian kernel, ``trees`` are extremely randomised trees."""

    def __post_init__(self) -> None:
        if not self.features or not self.classifiers:
            raise ConfigError("an ensemble needs at least one kind of features and one classifier")
        if len(set(self.features)) != len(self.features) or len(set(self.classifiers)) != len(self.classifiers):
            raise ConfigError("features or classifiers of an ensemble are repeated; expected different ones")
        if tuple(name for name in CLASSIFIERS if name in self.classifiers) != self.classifiers:
            raise ConfigError(
                f"classifiers {', '.join(self.classifiers)}; expected some of {', '.join(CLASSIFIERS)}, in this order"
            )
        if len(self.features) > MAX_KINDS:
            raise ConfigError(f"{len(self.features)} kinds of features; expected at most {MAX_KINDS}")

    @property
    def heads(self) -> tuple[tuple[int, bool], ...]:
        """Index of the kind of features of each group of classifiers, and whether it is trained on stretched copies."""
        plain = [(place, False) for place in range(len(self.features))]
        return (*plain, *((place, True) for place, one in enumerate(self.features) if one.stretched))

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members, such as ``spectrum 512, lda``."""
        names = (f"{self.features[place].name}{' stretched' * stretched}" for place, stretched in self.heads)
        return tuple(f"{name}, {classifier}" for name in names for classifier in self.classifiers)


class Ensemble(FeatureModel):
    """Class scores from several members, with or without a healthy reference of the machine."""

    pool: Tensor
    """Weight of every member."""

    def __init__(self, config: EnsembleConfig, channels: int, spec: WindowSpec, classes: int) -> None:
        super().__init__(config.features, channels, spec)
        self.config, self.classes = config, classes
        widths = [one.out_features for one in self.feature_modules()]
        self.heads = nn.ModuleList([Heads(widths[place], config.classifiers, classes) for place, _ in config.heads])
        self.register_buffer("pool", torch.full((len(config.members),), 1 / len(config.members)))

    def head_modules(self) -> list[Heads]:
        """Return the groups of classifiers, as :attr:`EnsembleConfig.heads` lists them."""
        return [one for one in self.heads if isinstance(one, Heads)]

    def member_scores(self, features: Sequence[Tensor], trees: StackedTrees | None = None) -> Tensor:
        """Return the scores of all members, (windows, members, classes); ``trees`` are those of this ensemble."""
        heads, own = self.head_modules(), [features[place] for place, _ in self.config.heads]
        if trees is None:
            return torch.cat([head(one) for head, one in zip(heads, own, strict=True)], dim=1)
        relative = [one - head.healthy for head, one in zip(heads, own, strict=True)]
        groups = zip(heads, relative, trees(relative).unbind(dim=1), strict=True)
        return torch.cat([head.scores(one, by_trees) for head, one, by_trees in groups], dim=1)

    def stacked_trees(self) -> StackedTrees | None:
        """Return the trees of all heads, ready to be evaluated together; None if there are none."""
        heads = [head.trees for head in self.head_modules() if head.trees is not None]
        return StackedTrees(heads, [len(head.healthy) for head in self.head_modules()]) if heads else None

    def healthy_scores(self) -> Tensor:
        """Return the scores of the mean healthy machine of the training, (members, classes)."""
        return torch.cat([head(head.healthy[None])[0] for head in self.head_modules()])

    def combine(self, member_scores: Tensor) -> Tensor:
        """Return the class scores of the ensemble, (windows, classes)."""
        return combine(member_scores, self.pool)

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of raw windows (windows, channels, length), without a reference of the machine."""
        return self.combine(self.member_scores(self.extract(x)))


class Heads(nn.Module):
    """The classifiers of one kind of features: linear ones, then a kernel classifier and trees if there are any."""

    weight: Tensor
    bias: Tensor
    healthy: Tensor
    """Mean features of the healthy machines of the training."""

    def __init__(self, inputs: int, classifiers: Sequence[str], classes: int, trees: int = TREES) -> None:
        super().__init__()
        count = sum(name in LINEAR for name in classifiers)
        self.shape = (count, classes)
        self.register_buffer("weight", torch.zeros(count * classes, inputs))
        self.register_buffer("bias", torch.zeros(count * classes))
        self.register_buffer("healthy", torch.zeros(inputs))
        self.kernel = KernelHead(inputs, classes) if "kernel" in classifiers else None
        self.trees = TreeHead(classes, trees) if "trees" in classifiers else None

    def forward(self, features: Tensor) -> Tensor:
        """Return scores, (windows, classifiers, classes)."""
        # Relative to the healthy machine, so that single precision loses no digits to large common values.
        relative = features - self.healthy
        return self.scores(relative, None if self.trees is None else self.trees(relative))

    def scores(self, relative: Tensor, by_trees: Tensor | None) -> Tensor:
        """Return scores of features relative to the healthy machine; those of the trees are given if there are any."""
        linear_scores = (linear(relative, self.weight) + self.bias).reshape(len(relative), *self.shape)
        beside = [None if self.kernel is None else self.kernel(relative), by_trees]
        return torch.cat([linear_scores, *(one[:, None] for one in beside if one is not None)], dim=1)


class KernelHead(nn.Module):
    """Logistic regression with a Gaussian kernel, approximated by random Fourier features of the leading axes."""

    axes: Tensor
    """(inputs, axes)"""
    frequencies: Tensor
    """(axes, waves)"""
    offset: Tensor
    """Phase of every wave."""
    weight: Tensor
    bias: Tensor

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        axes = min(KERNEL_AXES, inputs)
        self.register_buffer("axes", torch.zeros(inputs, axes))
        self.register_buffer("frequencies", torch.zeros(axes, KERNEL_WAVES))
        self.register_buffer("offset", torch.zeros(KERNEL_WAVES))
        self.register_buffer("weight", torch.zeros(classes, KERNEL_WAVES))
        self.register_buffer("bias", torch.zeros(classes))

    def waves(self, relative: Tensor) -> Tensor:
        """Return the random Fourier features, (windows, waves)."""
        phase: Tensor = relative @ self.axes @ self.frequencies + self.offset
        return torch.cos(phase) * sqrt(2 / KERNEL_WAVES)

    def forward(self, relative: Tensor) -> Tensor:
        """Return scores of features relative to the healthy machine, (windows, classes)."""
        scores: Tensor = linear(self.waves(relative), self.weight, self.bias)
        return scores


def combine(member_scores: Tensor, pool: Tensor) -> Tensor:
    """Return the weighted sum of the members' log-probabilities, (windows, classes)."""
    return torch.einsum("wmc,m->wc", member_votes(member_scores), pool.to(member_scores))


def member_votes(member_scores: Tensor) -> Tensor:
    """Return the log-probabilities of the members, none below the least, (windows, members, classes)."""
    return torch.log_softmax(member_scores, dim=-1).clamp(min=LEAST_LOG_PROBABILITY)
