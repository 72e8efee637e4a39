from __future__ import annotations

import numpy as np
import pytest
import torch

from cgsa.nn.assessment import TrainingExtent
from cgsa.nn.ensemble import combine
from cgsa.offline.assessment import training_extent
from cgsa.offline.ensemble import extract_features, train_ensemble
from tests.machines import CLASSES
from tests.offline.test_ensemble import at_loads, held_out_at_loads, small_manifest
from tests.offline.test_judging import features


def stage_mean(labels: np.ndarray, predicted: np.ndarray) -> float:
    by_class = [np.mean(predicted[labels == label] == label) for label in range(len(CLASSES))]
    return float((by_class[0] + np.mean(by_class[1:])) / 2)


def test_an_assessment_has_the_members_and_the_training() -> None:
    windows = at_loads((0.0, 5.0, 10.0))
    bundle = train_ensemble(windows, small_manifest()).bundle
    found, ensemble = bundle.manifest.assessment, bundle.require_ensemble()
    assert found is not None
    assert [one.name for one in found.members] == list(ensemble.config.members)
    assert sum(one.weight for one in found.members) == pytest.approx(1.0)
    weights = (ensemble.pool / ensemble.pool.sum()).tolist()
    for place, (one, weight) in enumerate(zip(found.members, weights, strict=True)):
        own = [
            stage_mean(part.labels.numpy(), part.scores[:, place].argmax(dim=1).numpy())
            for part in held_out_at_loads()
            if part.part.kind != "latest"
        ]
        assert one.weight == pytest.approx(weight)
        assert one.accuracy == pytest.approx(np.mean(own))
    features_of_all = extract_features(ensemble, windows)
    scores = combine(ensemble.member_scores(features_of_all.kinds), ensemble.pool)
    trained = stage_mean(features_of_all.labels.numpy(), scores.argmax(dim=1).numpy())
    assert found.training_accuracy == pytest.approx(trained)
    assert found.seconds_between == pytest.approx(0.016)
    assert found.extent == TrainingExtent((3,), 1, 1)


def test_the_extent_counts_levels_specimens_and_repeats() -> None:
    recorded = [(label, specimen, torque, 0) for label in (0, 1) for specimen in (1, 2) for torque in (0.0, 5.0, 10.0)]
    numbered = [(*row[:3], number) for number, row in enumerate(recorded)]
    assert training_extent(features(numbered)) == TrainingExtent((3, 1), 2, 2)
    # One recording is missing.
    assert training_extent(features(numbered[:-1])).repeats == 1
    assert torch.equal(features(numbered[:1]).machines, torch.ones(8, dtype=torch.int64))
