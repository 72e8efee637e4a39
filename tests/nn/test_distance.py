from __future__ import annotations

import torch

from cgsa.nn.distance import SHRINKAGE, ClassDistance, TrainingDistance


def two_clouds() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(6, 6, generator=generator)
    labels = torch.arange(400) % 2
    return torch.randn(400, 6, generator=generator) @ mixing + 5.0 * labels[:, None], labels


def test_the_distance_is_mahalanobis_to_the_nearest_class() -> None:
    inputs, labels = two_clouds()
    known = ClassDistance(2, 6)
    known.fit(inputs, labels)
    exact = inputs.double()
    means = [exact[labels == label].mean(dim=0) for label in (0, 1)]
    within = torch.cat([exact[labels == label] - means[label] for label in (0, 1)])
    covariance = within.T @ within / len(within)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * covariance.diagonal().mean() * torch.eye(6).double()
    inverse = torch.linalg.inv(covariance)
    literal = [min(float((x - mean) @ inverse @ (x - mean)) for mean in means) for x in exact]
    expected = torch.tensor(literal) / torch.tensor(literal).median()
    torch.testing.assert_close(known(inputs), expected, rtol=1e-3, atol=1e-4)


def test_training_windows_are_at_distance_one_and_others_farther() -> None:
    inputs, labels = two_clouds()
    known = ClassDistance(2, 6)
    known.fit(inputs, labels)
    assert float(known(inputs).median()) == 1.0
    assert float(known(inputs + 50.0).min()) > float(known(inputs).max())


def test_constant_features_do_not_cause_nan() -> None:
    known = ClassDistance(2, 3)
    known.fit(torch.zeros(10, 3), torch.arange(10) % 2)
    assert bool(torch.isfinite(known(torch.ones(4, 3))).all())


def test_windows_far_in_both_spaces_are_farthest() -> None:
    inputs, labels = two_clouds()
    features = inputs[:, :3] ** 2
    known = TrainingDistance(2, 6, 3)
    known.fit(inputs, features, labels)
    torch.testing.assert_close(known(inputs, features), known.inputs(inputs) * known.features(features))
    assert float(known(inputs + 50, features + 500).min()) > float(known(inputs + 50, features).median())
