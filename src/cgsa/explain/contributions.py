"""Which kinds of features, channels and bands made a model decide as it did.

The log-odds of a class against healthy are a sum over the members of an ensemble, and
those of a linear member a sum over its features. Both sums are compared with the healthy
machine, so that what it always has does not count. For a model of the healthy machine,
the squared distance is a sum over features.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.change import GENERAL, OWN, ChangeModel
from cgsa.nn.ensemble import LEAST_LOG_PROBABILITY, LINEAR, Ensemble, member_votes
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.spectra import ENVELOPE_HOP, ENVELOPES, MOMENTS, FeatureConfig, third_octaves

Place: TypeAlias = tuple[tuple[str, ...], str]
"""Channel or pair of channels, and band."""
BANDS = 8
"""Octaves below half the sample rate that are shown; the last one has everything below."""


@dataclass(frozen=True)
class Contribution:
    """A part of what the model decided by."""

    name: str
    value: float


@dataclass(frozen=True)
class BandContribution:
    """What the features of one channel in one band contributed."""

    channels: tuple[str, ...]
    """One, or a pair whose common movement it is."""
    band: str
    """Such as ``spectrum, 1600 to 3200 Hz``."""
    value: float

    @property
    def name(self) -> str:
        """Such as ``gearbox_y: spectrum, 1600 to 3200 Hz``."""
        return f"{' with '.join(self.channels)}: {self.band}"


@dataclass(frozen=True)
class Contributions:
    """What a decision rests on."""

    label: str
    """The class that was compared with healthy."""
    total: float
    """Log-odds of it against healthy, above those of the healthy machine; for a model of the healthy machine, the
    logarithm of the score of the mean window, which is 0 at the limit."""
    kinds: tuple[Contribution, ...]
    """Share of every kind of features, largest first; they add up to the total."""
    bands: tuple[BandContribution, ...]
    """Share of every channel and band of the linear members' scores, largest first; of the squared distance for a model
    of the healthy machine."""
    exact: bool
    """Whether no member was so certain that its vote was limited; if one was, bands exceed what it counts."""

    def by_channel(self) -> list[Contribution]:
        """Return the sums over all bands, largest first; each channel of a pair gets half."""
        sums: defaultdict[str, float] = defaultdict(float)
        for one in self.bands:
            for channel in one.channels:
                sums[channel] += one.value / len(one.channels)
        return sorted((Contribution(name, value) for name, value in sums.items()), key=lambda one: -one.value)


def contributions(
    bundle: ModelBundle, windows: Tensor, healthy: Tensor | None = None, label: str | None = None
) -> Contributions:
    """Return what windows of an interval contributed to its diagnosis, compared with the healthy machine.

    Parameters
    ----------
    windows, healthy
        Raw windows, (windows, channels, length). Without healthy ones, the mean healthy machine of the training counts.
    label
        The class; by default the most likely one that is not healthy.
    """
    if isinstance(bundle.model, Ensemble):
        return _of_ensemble(bundle.model, bundle.manifest, windows, healthy, label)
    if isinstance(bundle.model, ChangeModel):
        return _of_distance(bundle.model, bundle.manifest, windows, healthy)
    raise ConfigError("contributions need an ensemble or a model of the healthy machine; this model is a network")


@torch.no_grad()
def _of_ensemble(
    model: Ensemble, manifest: Manifest, windows: Tensor, healthy: Tensor | None, label: str | None
) -> Contributions:
    features = _mean_features(model, windows)
    # The first heads are those of every kind of features, in their order.
    trained = [head.healthy[None] for head in model.head_modules()[: len(features)]]
    usual = trained if healthy is None else _mean_features(model, healthy)
    scores, before = model.member_scores(features), model.member_scores(usual)
    if label is None:
        label = manifest.classes[1 + int(model.combine(scores)[0, 1:].argmax())]
    if label not in manifest.classes[1:]:
        raise ConfigError(f"class {label!r}; expected one of {', '.join(manifest.classes[1:])}")
    place = manifest.classes.index(label)
    votes, earlier = member_votes(scores)[0], member_votes(before)[0]
    odds = (votes[:, place] - votes[:, 0]) - (earlier[:, place] - earlier[:, 0])
    count = len(model.pool)
    shares = (model.pool * odds[:count]).tolist()
    exact = torch.stack([torch.log_softmax(one[0, :count], dim=-1).amin() for one in (scores, before)]).amin()
    kinds: defaultdict[str, float] = defaultdict(float)
    width = len(model.config.classifiers)
    for number, share in enumerate(shares):
        feature, stretched = model.config.heads[number // width]
        kinds[f"{model.config.features[feature].name}{' stretched' * stretched}"] += share
    bands: defaultdict[Place, float] = defaultdict(float)
    linear = [number for number, name in enumerate(model.config.classifiers) if name in LINEAR]
    for group, ((feature, _), head) in enumerate(zip(model.config.heads, model.head_modules(), strict=True)):
        weight = head.weight.reshape(*head.shape, -1)
        change = (features[feature] - usual[feature])[0]
        for order, number in enumerate(linear):
            values = model.pool[group * width + number] * (weight[order, place] - weight[order, 0]) * change
            _add_bands(bands, model.config.features[feature], manifest, values)
    return Contributions(label, sum(shares), _sorted(kinds), _sorted_bands(bands), bool(exact > LEAST_LOG_PROBABILITY))


@torch.no_grad()
def _of_distance(model: ChangeModel, manifest: Manifest, windows: Tensor, healthy: Tensor | None) -> Contributions:
    features = _mean_features(model, windows)
    usual = [metric.centre[None] for metric in model.metrics.kinds()]
    usual = usual if healthy is None else _mean_features(model, healthy)
    limit = float(model.limits[GENERAL if healthy is None else OWN])
    kinds: dict[str, float] = {}
    bands: defaultdict[Place, float] = defaultdict(float)
    metrics = model.metrics.kinds()
    for config, metric, now, before in zip(model.config.features, metrics, features, usual, strict=True):
        kinds[config.name] = (float(metric(now, before[0])) - limit) / len(metrics)
        relative = ((now - before) / metric.scale)[0]
        along = relative @ metric.axes
        values = relative * (relative - metric.axes @ (metric.known * along)) / len(relative) / len(metrics)
        _add_bands(bands, config, manifest, values)
    label = manifest.classes[1]
    return Contributions(label, sum(kinds.values()), _sorted(kinds), _sorted_bands(bands), exact=True)


def _mean_features(model: FeatureModel, windows: Tensor) -> list[Tensor]:
    """Return the mean of every kind of features over windows, (1, features) each."""
    return [one.mean(dim=0, keepdim=True) for one in model.extract(windows)]


def _sorted(kinds: dict[str, float]) -> tuple[Contribution, ...]:
    return tuple(sorted((Contribution(*pair) for pair in kinds.items()), key=lambda one: -one.value))


def _sorted_bands(bands: dict[Place, float]) -> tuple[BandContribution, ...]:
    return tuple(sorted((BandContribution(*key, value) for key, value in bands.items()), key=lambda one: -one.value))


def _add_bands(bands: defaultdict[Place, float], config: FeatureConfig, manifest: Manifest, values: Tensor) -> None:
    """Add the contribution of every feature to that of its channel and band."""
    for place, value in zip(feature_places(config, manifest), values.tolist(), strict=True):
        bands[place] += value


def feature_places(config: FeatureConfig, manifest: Manifest) -> list[Place]:
    """Return channel and band of every feature, in their order; pairs of channels are named by both."""
    rate, frame = manifest.sample_rate, config.frame
    single: list[tuple[str, ...]] = [(name,) for name in manifest.channels]
    pairs: list[tuple[str, ...]] = list(combinations(manifest.channels, 2))
    if config.kind in ENVELOPES:
        lines = _octaves(rate / ENVELOPE_HOP / frame, config.envelope_bins, rate / ENVELOPE_HOP / 4)
        return [(one, f"envelope, {line}") for one in single for line in lines]
    lines = _octaves(rate / frame, frame // 2, rate / 2)
    if config.kind == "spectrum":
        return [(one, f"spectrum, {line}") for one in single for line in lines]
    if config.kind == "cross_spectrum":
        beside = [(pair, f"phase, {line}") for line in lines for pair in pairs]
        return [(one, f"spectrum, {line}") for line in lines for one in single] + 2 * beside
    if config.kind == "cepstrum":
        return [(one, "cepstrum") for one in single for _ in range(frame // 2)]
    statistics = 2 * MOMENTS + len(third_octaves(frame // 2))
    return [(one, config.kind) for one in single for _ in range(statistics)]


def _octaves(step: float, lines: int, highest: float) -> list[str]:
    """Return the octave of every line; the first line is one step above 0."""
    edges = [highest / 2**number for number in range(BANDS)]
    found = []
    for line in range(1, lines + 1):
        number = next((n for n in range(BANDS - 1) if line * step > edges[n + 1]), BANDS - 1)
        low = 0.0 if number == BANDS - 1 else edges[number + 1]
        found.append(f"{low:.0f} to {edges[number]:.0f} Hz")
    return found
