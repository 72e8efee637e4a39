"""A model of the healthy machine alone: how far a window is from it, and whether that is farther than usual.

For each kind of features, the healthy windows of the training give a mean and a
covariance: the scatter within recordings, and between recordings, which differ in
condition and specimen. Directions in which healthy machines vary count little. The
score is the geometric mean of the distances over all kinds, relative to a limit
that healthy windows of held-out operating points do not exceed: 1 is the limit.

There are three *views*, each with its own limit: relative to the training; relative
to a healthy reference of the machine itself, whatever its condition is now, so that
differences between machines do not count; and relative to such a reference at the
same conditions, which is the most sensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn

from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.frame_sums import RecentFrames
from cgsa.nn.spectra import FeatureConfig, WindowFeatures, build_features

HEALTHY, CHANGED = "healthy", "changed"
"""States of a model that was trained on healthy recordings alone."""
MAX_AXES = 128
"""Most directions of healthy variation that are kept for each kind of features."""
GENERAL, OWN, OWN_STEADY = range(3)
"""Views: relative to the training, to a reference of the machine, and to one at the same conditions."""
LEAST_SQUARE = 1e-12
"""Squares of distances below this count as this much, so that each has a logarithm."""
MOST_LOG_SCORE = 50.0
"""Scores above the exponential of this count as this much: they stay finite in single precision."""
USUAL_PROBABILITY = 0.01
"""Probability of a change that the median healthy window of held-out conditions gets; at the limit it is 0.5."""


@dataclass(frozen=True)
class ChangeConfig:
    """Which features a model of the healthy machine uses."""

    features: tuple[FeatureConfig, ...]
    """Features of the score."""
    lines: tuple[FeatureConfig, ...]
    """Features that name what changed: ``spectrum`` and ``envelope`` of whole windows."""

    def __post_init__(self) -> None:
        if not self.features or len(set(self.features)) != len(self.features):
            raise ConfigError("a model of the healthy machine needs at least one kind of features, each once")


@dataclass(frozen=True)
class HeldOutHealthy:
    """Healthy windows of one part of the training, judged by a model that was trained without it."""

    name: str
    """Such as ``speed 1200 rpm``."""
    windows: int
    false_share: float
    """Share of them that were taken for changed; the limit comes from the other parts."""
    covered: bool = True
    """Whether the limit of the model accounts for it. It does for single operating points and specimens, not for
    whole levels, of which nothing similar is left in the training."""


@dataclass(frozen=True)
class ChangeAssessment:
    """What is known of a model of the healthy machine where it was not trained: false alarms, not detection."""

    results: tuple[HeldOutHealthy, ...]
    limiting: str | None = None
    """Name of the part that is farthest from the others, so that it sets the limit; None in older bundles."""

    @property
    def covered(self) -> list[HeldOutHealthy]:
        """The parts that the limit accounts for."""
        return [one for one in self.results if one.covered]

    @property
    def beyond(self) -> list[HeldOutHealthy]:
        """Whole levels: what happens at conditions unlike all of the training."""
        return [one for one in self.results if not one.covered]

    @property
    def false_share(self) -> float | None:
        """Mean over the covered parts of the share of windows that were taken for changed; None without parts."""
        return sum(one.false_share for one in self.covered) / len(self.covered) if self.covered else None

    @property
    def worst(self) -> HeldOutHealthy | None:
        """The covered part with most of its windows taken for changed."""
        return max(self.covered, key=lambda one: one.false_share, default=None)


class HealthyMetric(nn.Module):
    """Distance from healthy windows in one kind of features; usual variation counts little."""

    centre: Tensor
    """Mean of the healthy recordings."""
    scale: Tensor
    """Deviation of each feature within recordings."""
    axes: Tensor
    """Orthonormal directions of healthy variation, in units of the scale, (features, axes)."""
    known: Tensor
    """Share of the squared distance along each axis that healthy variation explains."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        axes = min(MAX_AXES, inputs)
        self.register_buffer("centre", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.register_buffer("axes", torch.zeros(inputs, axes))
        self.register_buffer("known", torch.zeros(axes))

    def forward(self, features: Tensor, reference: Tensor | None = None) -> Tensor:
        """Return the logarithm of the distance from the reference, or from the training without one, (windows,)."""
        relative = (features - (self.centre if reference is None else reference)) / self.scale
        along = relative @ self.axes
        square = relative.square().sum(dim=1) - (self.known * along.square()).sum(dim=1)
        return 0.5 * torch.log((square / features.shape[1]).clamp(min=LEAST_SQUARE))


class HealthyMetrics(nn.ModuleList):
    """Distances from healthy windows in several kinds of features, joined by their geometric mean."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__([HealthyMetric(size) for size in sizes])
        self.sizes = list(sizes)

    def kinds(self) -> list[HealthyMetric]:
        """Return the distance of each kind of features."""
        return [one for one in self if isinstance(one, HealthyMetric)]

    def log_distance(self, rows: Tensor, reference: Tensor | None = None) -> Tensor:
        """Return the mean logarithm of the distances over all kinds, (windows,).

        ``rows`` has the features of all kinds side by side, (windows, features). Distances are those from
        ``reference`` (features,), or from the training without one.
        """
        kinds = torch.split(rows, self.sizes, dim=1)
        references = [None] * len(kinds) if reference is None else list(torch.split(reference, self.sizes))
        found = [metric(kind, one) for metric, kind, one in zip(self.kinds(), kinds, references, strict=True)]
        return torch.stack(found).mean(dim=0)


class ChangeModel(FeatureModel):
    """Scores of windows against the healthy machine."""

    limits: Tensor
    """Logarithm of the distance at the limit of each view, (views,)."""
    widths: Tensor
    """How far below its limit, per view, the median healthy window of held-out conditions is, (views,)."""

    def __init__(self, config: ChangeConfig, channels: int, spec: WindowSpec) -> None:
        super().__init__(config.features, channels, spec)
        self.config = config
        self.sizes = [one.out_features for one in self.feature_modules()]
        self.metrics = HealthyMetrics(self.sizes)
        self.lines = nn.ModuleList([build_features(one, channels, spec) for one in config.lines])
        self.register_buffer("limits", torch.zeros(3))
        self.register_buffer("widths", torch.ones(3))

    @torch.no_grad()
    def fit_channels(self, samples: Tensor) -> None:
        """Fit what depends on single channels to training samples, (channels, samples)."""
        super().fit_channels(samples)
        for features in self.line_modules():
            features.fit(samples)

    def line_modules(self) -> list[WindowFeatures]:
        """Return the features that name what changed."""
        return [one for one in self.lines if isinstance(one, WindowFeatures)]

    def rows(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return the features of the score of raw windows, all kinds side by side, (windows, features)."""
        return torch.cat(self.extract(x, recent), dim=1)

    def line_rows(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return the features that name what changed, all kinds side by side, (windows, features).

        ``recent`` follows these windows already, as it does after :meth:`rows`.
        """
        return torch.cat([features(x, recent) for features in self.line_modules()], dim=1)

    def log_score(
        self, rows: Tensor, references: Tensor | None = None, *, steady: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return the logarithm of the score, 0 at the limit, and the log-odds of a change, (windows,) each.

        Parameters
        ----------
        rows
            Features of windows, from :meth:`rows`.
        references
            Healthy references of the machine, (references, features). If there are any, distances are those from the
            nearest one instead of those from the training.
        steady
            Whether the machine runs only at conditions of its references, which makes the limit lower.
        """
        if references is None or not len(references):
            view, distance = GENERAL, self.metrics.log_distance(rows)
        else:
            view = OWN_STEADY if steady else OWN
            distance = torch.stack([self.metrics.log_distance(rows, one) for one in references]).amin(dim=0)
        score = distance - self.limits[view]
        return score, score / self.widths[view] * log(1 / USUAL_PROBABILITY - 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of healthy and changed for raw windows, without a reference, (windows, 2)."""
        odds = self.log_score(self.rows(x))[1]
        return torch.stack([torch.zeros_like(odds), odds], dim=1)
