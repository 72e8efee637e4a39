from __future__ import annotations

import torch

from cgsa.nn.known import SHRINKAGE, KnownSpace


def two_clouds() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(6, 6, generator=generator)
    labels = torch.arange(400) % 2
    return torch.randn(400, 6, generator=generator) @ mixing + 5.0 * labels[:, None], labels


def test_the_distance_is_mahalanobis_to_the_nearest_class() -> None:
    inputs, labels = two_clouds()
    known = KnownSpace(2, 6)
    known.fit(inputs, labels)
    exact = inputs.double()
    means = [exact[labels == label].mean(dim=0) for label in (0, 1)]
    within = torch.cat([exact[labels == label] - means[label] for label in (0, 1)])
    covariance = within.T @ within / len(within)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * covariance.diagonal().mean() * torch.eye(6).double()
    inverse = torch.linalg.inv(covariance)
    literal = [min(float((x - mean) @ inverse @ (x - mean)) for mean in means) / 6 for x in exact]
    torch.testing.assert_close(known(inputs), torch.tensor(literal), rtol=1e-3, atol=1e-4)


def test_what_training_held_lies_at_about_one_and_the_rest_farther() -> None:
    inputs, labels = two_clouds()
    known = KnownSpace(2, 6)
    known.fit(inputs, labels)
    assert 0.8 < float(known(inputs).mean()) < 1.2
    assert float(known(inputs + 50.0).min()) > float(known(inputs).max())


def test_features_that_never_change_are_survived() -> None:
    known = KnownSpace(2, 3)
    known.fit(torch.zeros(10, 3), torch.arange(10) % 2)
    assert bool(torch.isfinite(known(torch.ones(4, 3))).all())
