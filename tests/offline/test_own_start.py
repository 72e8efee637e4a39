from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from cgsa.data.windows import Windows
from cgsa.nn.ensemble import Ensemble, EnsembleConfig
from cgsa.nn.spectra import FeatureConfig
from cgsa.offline.ensemble import extract_features, train_ensemble
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.own_start import CLEARANCE, compared_kinds, fit_own_start, healthy_rows
from tests.machines import CLASSES, ENSEMBLE, ENSEMBLE_SPEC, ensemble_manifest, ensemble_windows

SECONDS = ENSEMBLE_SPEC.length / 1000


@cache
def trained() -> tuple[Ensemble, Windows, TrainingFeatures]:
    windows = ensemble_windows()
    ensemble = Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES))
    return ensemble, windows, extract_features(ensemble, windows)


def test_long_spectra_and_cross_spectra_are_compared() -> None:
    kinds = ("statistics", "spectrum", "spectrum", "cross_spectrum", "spectrum", "spectrum")
    config = EnsembleConfig(tuple(FeatureConfig(kind, 64 >> n) for n, kind in enumerate(kinds)))
    assert compared_kinds(config) == (1, 2, 4, 3)


def test_only_healthy_windows_are_fitted() -> None:
    _, _, features = trained()
    kinds = compared_kinds(ENSEMBLE)
    healthy = healthy_rows(features, kinds)
    assert set(healthy.labels.tolist()) == {0}
    assert [kind.shape[1] for kind in healthy.kinds] == [features.kinds[kind].shape[1] for kind in kinds]


def test_a_healthy_machine_is_within_the_limits_and_a_fault_beyond() -> None:
    ensemble, _, features = trained()
    own_start = fit_own_start(ensemble, features, SECONDS, [])
    assert own_start is not None
    rows = own_start.rows(features.kinds)
    first = (features.labels == 0).nonzero().squeeze(1)
    same = first[features.recordings[first] == features.recordings[first[0]]]
    start = rows[same[:4]].mean(dim=0, keepdim=True)
    healthy, faulty = (own_start.log_distance(rows[index], start) for index in (same[4:], features.labels > 0))
    assert healthy.median() < own_start.unchanged < own_start.changed
    assert faulty.median() > own_start.unchanged


def test_the_nearest_fault_of_the_training_lowers_the_limit_of_unchanged_windows() -> None:
    ensemble, _, features = trained()
    near = [torch.full((50,), -2.0), torch.full((50,), 3.0)]
    own_start = fit_own_start(ensemble, features, SECONDS, near)
    assert own_start is not None
    assert float(own_start.unchanged) == pytest.approx(-2.0 - CLEARANCE)


def test_without_a_second_half_nothing_is_compared() -> None:
    ensemble, _, features = trained()
    short = replace(features, spans=torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(len(features), 1))
    assert fit_own_start(ensemble, short, SECONDS, []) is None


def test_a_training_keeps_the_comparison_in_its_bundle() -> None:
    bundle = train_ensemble(trained()[1], ensemble_manifest()).bundle
    assert bundle.own_start is not None
    assert bundle.manifest.own_start == bundle.own_start.config
    assert not bundle.own_start.training
