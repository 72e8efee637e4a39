from __future__ import annotations

from math import fsum

import pytest
import torch

from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.explain.contributions import contributions, feature_places
from cgsa.nn.ensemble import LINEAR
from cgsa.nn.spectra import FEATURES, FeatureConfig, build_features
from tests.machines import ENSEMBLE_SPEC, bundle, ensemble_bundle, ensemble_manifest


def windows(seed: int, size: float = 1.0) -> torch.Tensor:
    return size * torch.randn(6, 2, ENSEMBLE_SPEC.length, generator=torch.Generator().manual_seed(seed))


def test_kinds_add_up_to_the_difference_of_the_log_odds() -> None:
    model = ensemble_bundle()
    found = contributions(model, windows(0), windows(1), "wear")
    ensemble = model.require_ensemble()
    features = [[one.mean(dim=0, keepdim=True) for one in ensemble.extract(windows(seed))] for seed in (0, 1)]
    odds = [ensemble.combine(ensemble.member_scores(one))[0] for one in features]
    expected = (odds[0][1] - odds[0][0]) - (odds[1][1] - odds[1][0])
    assert found.total == pytest.approx(float(expected), rel=1e-3, abs=1e-4)
    assert fsum(one.value for one in found.kinds) == pytest.approx(found.total)


def test_bands_add_up_to_the_scores_of_the_linear_members() -> None:
    model = ensemble_bundle()
    ensemble = model.require_ensemble()
    found = contributions(model, windows(0), windows(1), "crack")
    linear = [number for number, name in enumerate(ensemble.config.members) if name.rpartition(", ")[2] in LINEAR]
    total = 0.0
    for sign, seed in ((1, 0), (-1, 1)):
        features = [one.mean(dim=0, keepdim=True) for one in ensemble.extract(windows(seed))]
        scores = ensemble.member_scores(features)[0]
        total += sign * fsum(float(ensemble.pool[one] * (scores[one, 2] - scores[one, 0])) for one in linear)
    assert fsum(one.value for one in found.bands) == pytest.approx(total, rel=1e-3, abs=1e-3)
    assert fsum(one.value for one in found.by_channel()) == pytest.approx(total, rel=1e-3, abs=1e-3)


def test_the_same_windows_contribute_nothing() -> None:
    found = contributions(ensemble_bundle(), windows(0), windows(0), "wear")
    assert found.total == 0.0
    assert all(one.value == 0.0 for one in found.bands)


def test_without_healthy_windows_the_training_counts() -> None:
    found = contributions(ensemble_bundle(), windows(0))
    assert found.label in {"wear", "crack"}
    assert found.bands


def test_a_louder_channel_contributes_more_than_a_silent_one() -> None:
    changed = windows(0)
    changed[:, 1] *= 4
    found = contributions(ensemble_bundle(), changed, windows(0), "wear")
    single = {one.channels for one in found.bands if one.value != 0.0 and len(one.channels) == 1}
    # The envelope is relative to its mean, and the matrix logarithm mixes channels where they move together.
    assert ("b",) in single


@pytest.mark.parametrize("kind", list(FEATURES))
def test_every_feature_has_a_place(kind: str) -> None:
    config = bind(FeatureConfig, {"kind": kind, "frame": 8}, "test")
    features = build_features(config, 2, ENSEMBLE_SPEC)
    assert len(feature_places(config, ensemble_manifest())) == features.out_features


def test_unknown_classes_and_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match="class 'rust'; expected one of wear, crack"):
        contributions(ensemble_bundle(), windows(0), label="rust")
    with pytest.raises(ConfigError, match="is a network"):
        contributions(bundle(), windows(0))
