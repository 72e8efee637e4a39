from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from cgsa.nn.ensemble import KernelHead
from cgsa.offline import linear
from cgsa.offline.linear import (
    KERNEL_GAMMA,
    LDA_SHRINKAGE,
    LOGISTIC_PENALTY,
    FeatureSpace,
    fit_kernel,
    fit_lda,
    fit_logistic,
)

CLASSES = 3


def labelled(
    width: int = 6, per_recording: int = 12, recordings: int = 9
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, labels and recordings of windows; the last recordings are shorter, so that classes differ in size."""
    generator = torch.Generator().manual_seed(0)
    means = 2 * torch.randn(CLASSES, width, generator=generator)
    features, labels, numbers = [], [], []
    for number in range(recordings):
        count, label = per_recording - number % 4, number % CLASSES
        centre = means[label] + 0.7 * torch.randn(width, generator=generator)
        features.append(5 + centre + 0.5 * torch.randn(count, width, generator=generator))
        labels.append(torch.full((count,), label))
        # Recordings need not be numbered without gaps.
        numbers.append(torch.full((count,), 3 * number + 1))
    scale = torch.logspace(-1, 2, width)
    return torch.cat(features) * scale, torch.cat(labels), torch.cat(numbers)


@settings(max_examples=30)
@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 99))
def test_principal_axes_keep_all_distances(count: int, width: int, seed: int) -> None:
    features = torch.randn(count, width, generator=torch.Generator().manual_seed(seed))
    space = FeatureSpace(features)
    assert space.points.shape[1] <= min(count, width)
    exact = features.double()
    scaled = (exact - exact.mean(dim=0)) / space.scale
    torch.testing.assert_close(torch.cdist(space.points, space.points), torch.cdist(scaled, scaled), rtol=0, atol=1e-5)
    torch.testing.assert_close(space.axes.T @ space.axes, torch.eye(space.axes.shape[1]).double(), rtol=0, atol=1e-4)


def test_two_random_windows_have_a_squared_distance_of_about_two() -> None:
    points = FeatureSpace(labelled(width=60)[0]).points
    assert float(torch.pdist(points).square().mean()) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("width", [4, 200])
def test_a_model_of_coordinates_is_one_of_raw_features(width: int) -> None:
    features, labels, _ = labelled(width)
    space = FeatureSpace(features)
    weight, bias = fit_logistic(space.points, labels, CLASSES)
    centre = features[:5].double().mean(dim=0)
    model = space.model(weight, bias, centre)
    found = (features.double() - centre) @ model.weight.T + model.bias
    torch.testing.assert_close(found, space.points @ weight + bias, rtol=1e-6, atol=1e-6)


def test_a_feature_that_never_changes_in_training_stays_harmless() -> None:
    features, labels, recordings = labelled()
    features[:, 2] = 4.0
    space = FeatureSpace(features)
    model = space.model(*fit_lda(space.points, labels, recordings, CLASSES), space.centre)
    changed = features.clone()
    changed[:, 2] += 1.0
    scores, other = ((one.double() - space.centre) @ model.weight.T + model.bias for one in (features, changed))
    torch.testing.assert_close(scores, other, rtol=0, atol=1e-6)


def test_identical_windows_give_a_model_without_axes() -> None:
    features, labels, recordings = torch.ones(6, 4), torch.tensor([0, 1, 2] * 2), torch.arange(6)
    space = FeatureSpace(features)
    assert space.points.shape == (6, 0)
    for weight, bias in (fit_logistic(space.points, labels, 3), fit_lda(space.points, labels, recordings, 3)):
        model = space.model(weight, bias, space.centre)
        torch.testing.assert_close(model.weight, torch.zeros(3, 4).double())
        torch.testing.assert_close(model.bias, torch.zeros(3).double())


def literal_lda(features: np.ndarray, labels: list[int], recordings: list[int], x: np.ndarray) -> np.ndarray:
    """Scores of linear discriminant analysis by the textbook formula, in the space of the scaled features."""
    centre, scale = features.mean(axis=0), features.std(axis=0) * np.sqrt(features.shape[1])
    scaled, x = (features - centre) / scale, (x - centre) / scale
    width = features.shape[1]
    of_recording, label_of = {}, {}
    for number in sorted(set(recordings)):
        own = [place for place, one in enumerate(recordings) if one == number]
        of_recording[number], label_of[number] = scaled[own].mean(axis=0), labels[own[0]]
    of_class = [
        np.mean([mean for number, mean in of_recording.items() if label_of[number] == label], axis=0)
        for label in range(CLASSES)
    ]
    covariance = np.zeros((width, width))
    for point, number in zip(scaled, recordings, strict=True):
        covariance += np.outer(point - of_recording[number], point - of_recording[number]) / len(scaled)
    for number, mean in of_recording.items():
        away = mean - of_class[label_of[number]]
        covariance += np.outer(away, away) / (len(of_recording) - CLASSES)
    shrunk = (1 - LDA_SHRINKAGE) * covariance + LDA_SHRINKAGE * np.trace(covariance) / width * np.eye(width)
    inverse = np.linalg.inv(shrunk)
    return np.asarray([[one @ inverse @ mean - mean @ inverse @ mean / 2 for mean in of_class] for one in x])


def test_discriminant_analysis_against_the_textbook() -> None:
    features, labels, recordings = labelled()
    space = FeatureSpace(features)
    model = space.model(*fit_lda(space.points, labels, recordings, CLASSES), space.centre)
    found = (features.double() - space.centre) @ model.weight.T + model.bias
    expected = literal_lda(features.double().numpy(), labels.tolist(), recordings.tolist(), features.double().numpy())
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_discriminant_analysis_counts_recordings_not_windows() -> None:
    """A recording with ten times the windows moves the mean of its class no more than another one."""
    features, labels, recordings = labelled()
    own = recordings == recordings[0]
    more = [torch.cat([one, one[own].repeat_interleave(9, dim=0)]) for one in (features, labels, recordings)]
    repeated = FeatureSpace(features)
    points = (more[0].double() - repeated.centre) / repeated.scale @ repeated.axes
    weight, bias = fit_lda(points, more[1], more[2], CLASSES)
    usual, usual_bias = fit_lda(repeated.points, labels, recordings, CLASSES)
    # Only the scatter of windows within their recording changes a little.
    torch.testing.assert_close(weight, usual, rtol=0.2, atol=0.2 * float(usual.abs().max()))
    torch.testing.assert_close(bias, usual_bias, rtol=0.2, atol=0.2 * float(usual_bias.abs().max()))


def test_logistic_regression_against_another_optimiser() -> None:
    features, labels, _ = labelled()
    points = FeatureSpace(features).points
    x, y = points.numpy(), labels.numpy()
    share = np.asarray([1 / (CLASSES * int((y == label).sum())) for label in y])
    one_hot = np.eye(CLASSES)[y]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight, bias = flat[:-CLASSES].reshape(-1, CLASSES), flat[-CLASSES:]
        scores = x @ weight + bias
        value = -(share * log_softmax(scores, axis=1)[range(len(y)), y]).sum()
        slope = share[:, None] * (softmax(scores, axis=1) - one_hot)
        gradient = np.concatenate([(x.T @ slope + LOGISTIC_PENALTY * weight).ravel(), slope.sum(axis=0)])
        return float(value + LOGISTIC_PENALTY / 2 * (weight**2).sum()), gradient

    start = np.zeros((x.shape[1] + 1) * CLASSES)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10})
    weight, bias = fit_logistic(points, labels, CLASSES)
    found = np.concatenate([weight.numpy().ravel(), bias.numpy()])
    assert loss(found)[0] == pytest.approx(best.fun, rel=1e-3)
    expected = softmax(x @ best.x[:-CLASSES].reshape(-1, CLASSES) + best.x[-CLASSES:], axis=1)
    np.testing.assert_allclose(softmax(x @ weight.numpy() + bias.numpy(), axis=1), expected, atol=5e-3)


def test_a_class_with_few_windows_has_the_same_weight_as_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(2000, 1, generator=generator, dtype=torch.float64)
    labels = (torch.arange(2000) % 20 == 0).long()
    # Both classes are the same distribution: no side may be preferred.
    weight, bias = fit_logistic(points, labels, 2)
    share = torch.softmax(points @ weight + bias, dim=1)[:, 1]
    assert float(share.mean()) == pytest.approx(0.5, abs=0.05)


def test_waves_approximate_a_gaussian_kernel() -> None:
    features, labels, _ = labelled(width=20)
    space, head = FeatureSpace(features), KernelHead(20, CLASSES)
    centre = features[labels == 0].double().mean(dim=0)
    fit_kernel(head, space, labels, centre)
    waves = head.waves((features.double() - centre).float() @ head.axes).double()
    expected = torch.exp(-KERNEL_GAMMA * torch.cdist(space.points, space.points).square())
    assert float((waves @ waves.T - expected).abs().max()) < 5 / 1024**0.5


@pytest.mark.parametrize("width", [20, 300])
def test_a_kernel_classifier_is_fitted_to_what_it_will_read(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    features, labels, _ = labelled(width=width)
    space, head = FeatureSpace(features), KernelHead(width, CLASSES)
    centre = features[labels == 0].double().mean(dim=0)
    fitted: list[torch.Tensor] = []

    def remembered(points: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
        fitted.append(points)
        return fit_logistic(points, *others)

    monkeypatch.setattr(linear, "fit_logistic", remembered)
    fit_kernel(head, space, labels, centre)
    read = head.waves((features.double() - centre).float() @ head.axes)
    torch.testing.assert_close(fitted[0].float(), read, rtol=0, atol=1e-5)


@pytest.mark.parametrize("width", [6, 300])
def test_points_are_the_features_along_the_axes(width: int) -> None:
    features, _, _ = labelled(width=width)
    space = FeatureSpace(features)
    scaled = (features.double() - space.centre) / space.scale
    torch.testing.assert_close(space.points, scaled @ space.axes, rtol=0, atol=1e-9)


def test_a_kernel_classifier_separates_what_no_line_separates() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(400, 2, generator=generator)
    labels = (points.prod(dim=1) > 0).long()
    space, head = FeatureSpace(points), KernelHead(2, 2)
    fit_kernel(head, space, labels, space.centre)
    right = head((points.double() - space.centre).float()).argmax(dim=1) == labels
    assert float(right.double().mean()) > 0.95
    weight, bias = fit_logistic(space.points, labels, 2)
    right = (space.points @ weight + bias).argmax(dim=1) == labels
    assert float(right.double().mean()) < 0.7


def test_fitting_twice_gives_the_same_bits() -> None:
    features, labels, recordings = labelled(width=100)
    models = []
    for _ in range(2):
        space, head = FeatureSpace(features), KernelHead(100, CLASSES)
        fit_kernel(head, space, labels, space.centre)
        logistic, lda = fit_logistic(space.points, labels, CLASSES), fit_lda(space.points, labels, recordings, CLASSES)
        models.append([*head.buffers(), *logistic, *lda])
    assert all(torch.equal(a, b) for a, b in zip(*models, strict=True))
