from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.nn.novelty import AXES, EnsembleDistance, FeatureDistance, join_distances
from cgsa.offline.linear import FeatureSpace
from tests.machines import ensemble_bundle, ensemble_windows


def plane(count: int = 300, width: int = 48, seed: int = 0) -> torch.Tensor:
    """Features that vary along three directions, plus a little noise in all."""
    generator = torch.Generator().manual_seed(7)
    directions = torch.randn(3, width, generator=generator)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, generator=generator) @ directions + 0.05 * torch.randn(
        count, width, generator=generator
    )


def fitted(features: torch.Tensor) -> FeatureDistance:
    distance = FeatureDistance(features.shape[1])
    FeatureSpace(features).fit_distance(distance)
    return distance


def test_distance_against_loops_over_the_principal_axes() -> None:
    training, x = plane(), plane(5, seed=1) + 0.3
    exact = training.double().numpy()
    scale = exact.std(axis=0) * np.sqrt(exact.shape[1])
    scaled = (exact - exact.mean(axis=0)) / scale
    # The axes of largest variance, from a singular value decomposition.
    _, singular, rows = np.linalg.svd(scaled, full_matrices=False)

    def parts(features: np.ndarray) -> tuple[float, float]:
        relative = (features - exact.mean(axis=0)) / scale
        inside, along = 0.0, 0.0
        for number in range(AXES):
            coordinate = float(relative @ rows[number])
            inside += coordinate**2 / (singular[number] ** 2 / len(exact)) / AXES
            along += coordinate**2
        return inside, float(relative @ relative) - along

    usual = np.median([parts(one) for one in exact], axis=0)
    expected = [np.asarray(parts(one)) / usual for one in x.double().numpy()]
    np.testing.assert_allclose(fitted(training)(x).numpy(), expected, rtol=2e-2)


def test_training_windows_have_a_distance_of_about_one() -> None:
    training = plane()
    found = fitted(training)(training)
    torch.testing.assert_close(found.median(dim=0).values, torch.ones(2), rtol=1e-3, atol=0)


def test_windows_are_far_along_the_axes_or_beside_them() -> None:
    training = plane()
    distance = fitted(training)
    along, beside = distance(10 * training[:1])[0].tolist()
    assert along > 10
    other = torch.randn(48, generator=torch.Generator().manual_seed(3))
    _, strange = distance(training[:1] + other)[0].tolist()
    assert strange > 100
    assert strange > beside


def test_no_more_features_than_axes_leave_nothing_beside_them() -> None:
    """What is left is a rounding error, which says nothing about a window."""
    training = plane(width=4)
    found = fitted(training)(plane(width=4, seed=1))
    assert 0.5 < float(found[:, 1].median()) < 2
    assert float(found[:, 1].max()) < 20


def test_few_training_windows_leave_axes_unused() -> None:
    training = plane(8)
    distance = fitted(training)
    assert int((distance.axes.abs().sum(dim=0) > 0).sum()) == 7
    assert bool(torch.isfinite(distance(plane(20, seed=1))).all())


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=6))
def test_kinds_are_joined_by_their_geometric_mean(values: list[float]) -> None:
    product = 1.0
    for value in values:
        product *= value ** (1 / len(values))
    parts = [torch.tensor([[value]], dtype=torch.float64) for value in values]
    np.testing.assert_allclose(join_distances(parts).numpy(), [product], rtol=1e-6)


def test_an_ensemble_measures_the_distance_over_all_kinds() -> None:
    source = ensemble_bundle()
    ensemble, distance = source.require_ensemble(), source.known
    assert isinstance(distance, EnsembleDistance)
    windows = ensemble_windows(step=64)
    x = windows.gather(torch.arange(len(windows)))
    features = ensemble.extract(x)
    found = distance(features)
    expected = join_distances([kind(one) for kind, one in zip(distance.kind_modules(), features, strict=True)])
    assert torch.equal(found, expected)
    assert 0.5 < float(found.median()) < 2
    shuffled = x[:, :, torch.randperm(x.shape[2], generator=torch.Generator().manual_seed(0))]
    assert float(distance(ensemble.extract(shuffled)).median()) > 3 * float(found.median())
