"""The ensemble: linear models on several kinds of averaged spectra, combined by their log-probabilities.

Every *member* is one kind of features with one linear classifier. The scores of
the ensemble are the weighted sum of the members' log-probabilities. Weights come
from conditions, units and runs held out of training (:mod:`cgsa.offline.pool`).

A healthy reference shifts the scores: the part of a score that the features of
the healthy machine contribute is replaced, by a share, with that of the healthy
machines of the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.nn.spectra import FeatureConfig, WindowFeatures, build_features

LEAST_LOG_PROBABILITY = -10.0
"""However certain a member is, its vote against a class has this limit: far from training, scores grow without bound."""


@dataclass(frozen=True)
class EnsembleConfig:
    """Which members an ensemble has: every kind of features with every classifier."""

    features: tuple[FeatureConfig, ...]
    classifiers: tuple[str, ...] = ("logistic", "lda")
    """``logistic`` is logistic regression, ``lda`` is linear discriminant analysis with a shrunk covariance."""

    def __post_init__(self) -> None:
        if not self.features or not self.classifiers:
            raise ConfigError("an ensemble needs at least one kind of features and one classifier")
        if len(set(self.features)) != len(self.features) or len(set(self.classifiers)) != len(self.classifiers):
            raise ConfigError("features or classifiers of an ensemble are repeated; expected different ones")

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members, such as ``spectrum 512, lda``."""
        return tuple(f"{one.name}, {classifier}" for one in self.features for classifier in self.classifiers)


class Ensemble(nn.Module):
    """Class scores from several linear members, with or without a healthy reference of the machine."""

    pool: Tensor
    """Weight of every member."""

    def __init__(self, config: EnsembleConfig, channels: int, spec: WindowSpec, classes: int) -> None:
        super().__init__()
        self.config, self.classes = config, classes
        self.features = nn.ModuleList([build_features(one, channels, spec) for one in config.features])
        heads = len(config.classifiers)
        self.heads = nn.ModuleList([LinearHeads(one.out_features, heads, classes) for one in self.feature_modules()])
        self.register_buffer("pool", torch.full((len(config.members),), 1 / len(config.members)))

    def feature_modules(self) -> list[WindowFeatures]:
        """Return the kinds of features."""
        return [one for one in self.features if isinstance(one, WindowFeatures)]

    def head_modules(self) -> list[LinearHeads]:
        """Return the classifiers of each kind of features."""
        return [one for one in self.heads if isinstance(one, LinearHeads)]

    def extract(self, x: Tensor) -> list[Tensor]:
        """Return the features of raw windows (windows, channels, length), one tensor for each kind."""
        return [features(x) for features in self.feature_modules()]

    def member_scores(self, features: Sequence[Tensor], shift: Tensor | None = None) -> Tensor:
        """Return the scores of all members, (windows, members, classes); ``shift`` is subtracted from them."""
        scores = torch.cat([head(one) for head, one in zip(self.head_modules(), features, strict=True)], dim=1)
        return scores if shift is None else scores - shift

    def shift(self, reference: Sequence[Tensor]) -> Tensor:
        """Return how a healthy reference, one feature vector of each kind, moves the scores, (members, classes)."""
        parts = zip(self.head_modules(), reference, strict=True)
        return torch.cat([(head(one[None]) - head(head.healthy[None]))[0] for head, one in parts])

    def combine(self, member_scores: Tensor) -> Tensor:
        """Return the class scores of the ensemble, (windows, classes)."""
        return combine(member_scores, self.pool)

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of raw windows (windows, channels, length), without a reference of the machine."""
        return self.combine(self.member_scores(self.extract(x)))


class LinearHeads(nn.Module):
    """The linear classifiers of one kind of features."""

    weight: Tensor
    bias: Tensor
    healthy: Tensor
    """Mean features of the healthy machines of the training."""

    def __init__(self, inputs: int, heads: int, classes: int) -> None:
        super().__init__()
        self._shape = (heads, classes)
        self.register_buffer("weight", torch.zeros(heads * classes, inputs))
        self.register_buffer("bias", torch.zeros(heads * classes))
        self.register_buffer("healthy", torch.zeros(inputs))

    def forward(self, features: Tensor) -> Tensor:
        """Return scores, (windows, heads, classes)."""
        # Relative to the healthy machine, so that single precision loses no digits to large common values.
        return (torch.nn.functional.linear(features - self.healthy, self.weight) + self.bias).unflatten(1, self._shape)


def combine(member_scores: Tensor, pool: Tensor) -> Tensor:
    """Return the weighted sum of the members' log-probabilities, (windows, classes)."""
    votes = torch.log_softmax(member_scores, dim=-1).clamp(min=LEAST_LOG_PROBABILITY)
    return torch.einsum("wmc,m->wc", votes, pool.to(votes))
