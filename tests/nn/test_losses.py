from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from cgsa.nn.losses import (
    entropy,
    gaussian_nll,
    soft_cross_entropy,
    supervised_contrastive,
    symmetric_cross_entropy,
)


def test_gaussian_nll_by_hand() -> None:
    """c=1, mu=0, sigma^2=1: 0 + 1/2. c=0, mu=2, sigma^2=4: ln(4)/2 + 4/8. Mean of both."""
    loss = gaussian_nll(
        torch.tensor([[0.0], [2.0]]), torch.tensor([[0.0], [math.log(4.0)]]), torch.tensor([[1.0], [0.0]])
    )
    assert float(loss) == pytest.approx((0.5 + math.log(2.0) + 0.5) / 2)


@given(conditions=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_gaussian_nll_adds_up_over_conditions(conditions: int, seed: int) -> None:
    mean, log_variance, target = torch.randn(3, 7, conditions, generator=torch.Generator().manual_seed(seed))
    alone = [
        gaussian_nll(mean[:, [place]], log_variance[:, [place]], target[:, [place]]) for place in range(conditions)
    ]
    torch.testing.assert_close(gaussian_nll(mean, log_variance, target), torch.stack(alone).sum())


def test_gaussian_nll_gradients_by_hand() -> None:
    """d/dmu = (mu - c)/sigma^2; d/dlog sigma^2 = 1/2 - (c - mu)^2 / (2 sigma^2)."""
    mean = torch.tensor([[2.0]], requires_grad=True)
    log_variance = torch.tensor([[math.log(4.0)]], requires_grad=True)
    torch.autograd.backward(gaussian_nll(mean, log_variance, torch.tensor([[0.0]])))
    assert mean.grad is not None
    assert log_variance.grad is not None
    assert float(mean.grad) == pytest.approx(0.5)
    assert float(log_variance.grad) == pytest.approx(0.0, abs=1e-7)


def literal_contrastive(z: list[list[float]], labels: list[int], temperature: float) -> float:
    def similarity(i: int, j: int) -> float:
        return sum(a * b for a, b in zip(z[i], z[j], strict=True)) / temperature

    anchors = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        if positives:
            total = math.log(sum(math.exp(similarity(i, a)) for a in others))
            anchors.append(-sum(similarity(i, p) - total for p in positives) / len(positives))
    return sum(anchors) / len(anchors) if anchors else 0.0


@given(labels=st.lists(st.integers(0, 3), min_size=2, max_size=12), seed=st.integers(0, 1000))
def test_contrastive_equals_its_sum(labels: list[int], seed: int) -> None:
    z = normalize(torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(seed)).double(), dim=1)
    loss = supervised_contrastive(z, torch.tensor(labels), 0.5)
    assert float(loss) == pytest.approx(literal_contrastive(z.tolist(), labels, 0.5), abs=1e-9)


def test_contrastive_without_a_pair_is_zero() -> None:
    z = normalize(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), dim=1).requires_grad_()
    loss = supervised_contrastive(z, torch.tensor([0, 1, 2]), 0.07)
    torch.autograd.backward(loss)
    assert loss.item() == 0.0
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_entropies_by_hand() -> None:
    """Even scores over four classes: ln 4. Against a certain target: the score of that class alone."""
    even = torch.zeros(1, 4)
    assert entropy(even).item() == pytest.approx(math.log(4))
    certain = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    assert soft_cross_entropy(certain, even).item() == pytest.approx(math.log(4))
    scores = torch.tensor([[2.0, -1.0, 0.5, 0.0]])
    assert symmetric_cross_entropy(scores, scores).item() == pytest.approx(entropy(scores).item())
    assert symmetric_cross_entropy(scores, even).item() == pytest.approx(symmetric_cross_entropy(even, scores).item())
