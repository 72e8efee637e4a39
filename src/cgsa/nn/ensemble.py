"""The ensemble: simple classifiers on several kinds of averaged spectra, combined by their log-probabilities.

Every *member* is one kind of features with one classifier. The scores of
the ensemble are the weighted sum of the members' log-probabilities. Weights come
from conditions, units and runs held out of training (:mod:`cgsa.offline.pool`).

If one of the operating conditions is a speed, there are also members *in orders*,
for windows whose speed is known (:mod:`cgsa.nn.orders`). They have weights of their own
together with all others, so that windows without a known speed are not concerned.

A healthy reference shifts the scores: the part of a score that the features of
the healthy machine contribute is replaced, by a share, with that of the healthy
machines of the training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from cgsa.config import stored_if_given
from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.orders import SpeedConfig, stretch
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
    speed: SpeedConfig | None = field(default=None, metadata=stored_if_given())
    """For members in orders; None if no condition is a speed."""

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
    def order_heads(self) -> tuple[int, ...]:
        """Index of the kind of features of each group of classifiers in orders."""
        return () if self.speed is None else tuple(place for place, one in enumerate(self.features) if one.stretched)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members that need no speed, such as ``spectrum 512, lda``."""
        return self._named(f"{self.features[place].name}{' stretched' * stretched}" for place, stretched in self.heads)

    @property
    def order_members(self) -> tuple[str, ...]:
        """Names of the members in orders, such as ``envelope 1024 in orders, lda``."""
        return self._named(f"{self.features[place].name} in orders" for place in self.order_heads)

    def _named(self, groups: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{name}, {classifier}" for name in groups for classifier in self.classifiers)


class Ensemble(FeatureModel):
    """Class scores from several members, with or without a healthy reference of the machine."""

    pool: Tensor
    """Weight of every member that needs no speed."""
    speed_pool: Tensor
    """Weight of every member where the speed is known, those in orders last."""

    def __init__(self, config: EnsembleConfig, channels: int, spec: WindowSpec, classes: int) -> None:
        super().__init__(config.features, channels, spec)
        self.config, self.classes = config, classes
        widths = [one.out_features for one in self.feature_modules()]
        self.heads = nn.ModuleList([Heads(widths[place], config.classifiers, classes) for place, _ in config.heads])
        self.register_buffer("pool", torch.full((len(config.members),), 1 / len(config.members)))
        self.order_heads = nn.ModuleList(
            [Heads(widths[place], config.classifiers, classes) for place in config.order_heads]
        )
        if config.speed is not None:
            self.register_buffer("speed_pool", torch.full((self.member_count,), 1 / self.member_count))

    @property
    def member_count(self) -> int:
        """Number of members, with those in orders."""
        return len(self.config.members) + len(self.config.order_members)

    def head_modules(self) -> list[Heads]:
        """Return the groups of classifiers, as :attr:`EnsembleConfig.heads` lists them."""
        return [one for one in self.heads if isinstance(one, Heads)]

    def order_head_modules(self) -> list[Heads]:
        """Return the groups of classifiers in orders, as :attr:`EnsembleConfig.order_heads` lists them."""
        return [one for one in self.order_heads if isinstance(one, Heads)]

    def speed_factors(self, conditions: Tensor | None) -> Tensor | None:
        """Return by how much the lines of each window are moved into orders, NaN where its speed is unknown.

        None if no window has a known speed, or if the ensemble has no members in orders.
        """
        if conditions is None or self.config.speed is None:
            return None
        factors = self.config.speed.factors(conditions)
        return None if bool(factors.isnan().all()) else factors

    def member_scores(
        self, features: Sequence[Tensor], factors: Tensor | None = None, trees: StackedTrees | None = None
    ) -> Tensor:
        """Return the scores of all members, (windows, members, classes).

        ``factors`` are those of :meth:`speed_factors`; members in orders score 0 where the speed is unknown. ``trees``
        are those of :meth:`stacked_trees`.
        """
        heads, own = self.head_modules(), [features[place] for place, _ in self.config.heads]
        if trees is None:
            scores = [head(one) for head, one in zip(heads, own, strict=True)]
        else:
            relative = [one - head.healthy for head, one in zip(heads, own, strict=True)]
            groups = zip(heads, relative, trees(relative).unbind(dim=1), strict=True)
            scores = [head.scores(one, by_trees) for head, one, by_trees in groups]
        if factors is not None:
            known = factors.isfinite()[:, None, None]
            for head, place in zip(self.order_head_modules(), self.config.order_heads, strict=True):
                bins = self.config.features[place].envelope_bins
                moved = stretch(features[place], bins, factors.nan_to_num(nan=1.0))
                scores.append(torch.where(known, head(moved), 0.0))
        elif self.config.order_members:
            scores.append(scores[0].new_zeros(len(scores[0]), len(self.config.order_members), self.classes))
        return torch.cat(scores, dim=1)

    def stacked_trees(self) -> StackedTrees | None:
        """Return the trees of the heads that need no speed, to be evaluated together; None if there are none."""
        heads = [head.trees for head in self.head_modules() if head.trees is not None]
        return StackedTrees(heads, [len(head.healthy) for head in self.head_modules()]) if heads else None

    def healthy_scores(self) -> Tensor:
        """Return the scores of the mean healthy machine of the training, (members, classes)."""
        return torch.cat([head(head.healthy[None])[0] for head in (*self.head_modules(), *self.order_head_modules())])

    def combine(self, member_scores: Tensor, factors: Tensor | None = None) -> Tensor:
        """Return the class scores of the ensemble, (windows, classes)."""
        without = combine(member_scores, self.pool)
        if factors is None:
            return without
        return torch.where(factors.isfinite()[:, None], combine(member_scores, self.speed_pool), without)

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of raw windows (windows, channels, length), without a reference or a speed."""
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

    def waves(self, projected: Tensor) -> Tensor:
        """Return the random Fourier features of windows projected to the axes, (windows, waves)."""
        phase: Tensor = projected @ self.frequencies + self.offset
        return torch.cos(phase) * sqrt(2 / KERNEL_WAVES)

    def forward(self, relative: Tensor) -> Tensor:
        """Return scores of features relative to the healthy machine, (windows, classes)."""
        scores: Tensor = linear(self.waves(relative @ self.axes), self.weight, self.bias)
        return scores


def combine(member_scores: Tensor, pool: Tensor) -> Tensor:
    """Return the weighted sum of the members' log-probabilities, (windows, classes).

    Members after those that have a weight do not count.
    """
    return torch.einsum("wmc,m->wc", member_votes(member_scores[:, : len(pool)]), pool.to(member_scores))


def member_votes(member_scores: Tensor) -> Tensor:
    """Return the log-probabilities of the members, none below the least, (windows, members, classes)."""
    return torch.log_softmax(member_scores, dim=-1).clamp(min=LEAST_LOG_PROBABILITY)
