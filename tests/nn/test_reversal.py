from __future__ import annotations

import math

import pytest
import torch

from cgsa.nn.reversal import adversarial_coefficient, reverse_gradient


def test_the_gradient_is_negated_and_scaled() -> None:
    """By hand: y = x^2 has dy/dx = 2x; reversed with 0.25 that is -0.5 x."""
    x = torch.tensor([1.0, -3.0, 0.5], requires_grad=True)
    y = reverse_gradient(x, torch.tensor(0.25))
    assert torch.equal(y, x)
    torch.autograd.backward((y**2).sum())
    assert x.grad is not None
    assert x.grad.tolist() == [-0.5, 1.5, -0.25]


def test_lambda_by_hand() -> None:
    """2 / (1 + e^-10p) - 1 at p = 0, 0.1, 0.2, 0.5, 1: tanh(5p)."""
    by_hand = [(0.0, 0.0), (0.1, 0.4621171573), (0.2, 0.7615941560), (0.5, 0.9866142982), (1.0, math.tanh(5.0))]
    for progress, expected in by_hand:
        found = adversarial_coefficient(torch.tensor(progress, dtype=torch.float64), 10.0)
        assert found.item() == pytest.approx(expected, abs=1e-9)
