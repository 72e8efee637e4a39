from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.change import OWN, OWN_STEADY, ChangeConfig, ChangeModel, HealthyMetric
from cgsa.offline.healthy_distance import fit_metric
from tests.machines import ToyLibrary, healthy_bundle, segment


def literal_distance(metric: HealthyMetric, row: Tensor, reference: Tensor) -> float:
    """The distance by the inverse of the whole covariance matrix, in double precision."""
    relative = ((row - reference) / metric.scale).double()
    axes, known = metric.axes.double(), metric.known.double()
    covariance = torch.eye(len(row), dtype=torch.float64) + axes @ torch.diag(known / (1 - known)) @ axes.T
    return 0.5 * math.log(float(relative @ torch.linalg.solve(covariance, relative)) / len(row))


def fitted(seed: int, features: int = 6) -> tuple[HealthyMetric, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    means = 4 * torch.randn(3, features, generator=generator)
    recordings = torch.arange(3).repeat_interleave(10)
    rows = means[recordings] + torch.randn(30, features, generator=generator)
    metric = HealthyMetric(features)
    fit_metric(metric, rows, recordings)
    return metric, rows


@given(st.integers(0, 1000))
def test_the_distance_is_that_of_the_whole_covariance_matrix(seed: int) -> None:
    metric, rows = fitted(seed)
    found = metric(rows[:3], rows[5])
    for row, value in zip(rows[:3], found.tolist(), strict=True):
        assert value == pytest.approx(literal_distance(metric, row, rows[5]), abs=1e-3)


def test_variation_between_healthy_recordings_counts_little() -> None:
    rows = torch.zeros(40, 2)
    recordings = torch.arange(4).repeat_interleave(10)
    rows[:, 0] = 10.0 * recordings
    rows += torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    metric = HealthyMetric(2)
    fit_metric(metric, rows, recordings)
    along, across = metric.centre + torch.tensor([8.0, 0.0]), metric.centre + torch.tensor([0.0, 8.0])
    assert float(metric(along[None])) < float(metric(across[None])) - 1


def test_a_feature_that_never_varies_leaves_the_distance_finite() -> None:
    metric = HealthyMetric(3)
    fit_metric(metric, torch.ones(8, 3), torch.arange(8) // 4)
    assert torch.isfinite(metric(torch.tensor([[1.0, 1.0, 2.0]]))).all()


def toy_rows(state: str, model: ChangeModel, gain: float = 1.0) -> Tensor:
    signal = gain * torch.from_numpy(ToyLibrary(seed=5).get(state, "low", severity="H", specimen=1).signal)
    length = healthy_bundle().manifest.window.length
    return model.rows(signal[:, 5000 : 5000 + 4 * length].unfold(1, length, length).transpose(0, 1))


def test_faults_score_higher_than_healthy_windows_with_every_view() -> None:
    model = healthy_bundle().require_change()
    healthy, faulty = toy_rows("health", model), toy_rows("wear", model)
    for references, steady in ((None, False), (healthy[:1], False), (healthy[:1], True)):
        calm, odds_calm = model.log_score(healthy[1:], references, steady=steady)
        wild, odds_wild = model.log_score(faulty, references, steady=steady)
        assert float(calm.max()) < 0 < float(wild.min())
        assert float(odds_calm.max()) < 0 < float(odds_wild.min())


def test_the_nearest_reference_of_the_machine_replaces_the_training() -> None:
    model = healthy_bundle().require_change()
    loud = toy_rows("health", model, gain=10.0)
    own = loud[:1]
    assert float(model.log_score(loud)[0].min()) > 0
    assert float(model.log_score(loud[1:], own)[0].max()) < 0
    # What resembles the training is changed if it does not resemble the machine.
    assert float(model.log_score(toy_rows("health", model), own)[0].min()) > 0
    both = torch.cat([own + 100.0, own])
    torch.testing.assert_close(model.log_score(loud, both)[0], model.log_score(loud, own)[0])


def test_the_limit_at_the_same_conditions_is_the_lowest() -> None:
    limits = healthy_bundle().require_change().limits
    assert float(limits[OWN_STEADY]) <= float(limits[OWN])


def test_the_frozen_model_gives_the_log_odds_of_a_change() -> None:
    model = healthy_bundle().require_change()
    window = segment(ToyLibrary().get("health", "low", severity="H", specimen=1)).recording.signal
    x = torch.from_numpy(window[None, :, : healthy_bundle().manifest.window.length])
    scores = model(x)
    assert scores.shape == (1, 2)
    torch.testing.assert_close(scores[:, 1] - scores[:, 0], model.log_score(model.rows(x))[1])


def test_features_are_needed_once_each() -> None:
    with pytest.raises(ConfigError, match="at least one kind"):
        ChangeConfig((), ())
