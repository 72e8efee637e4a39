"""GPU kernels of losses, interpreted on a CPU, compared with tensor operations."""

from __future__ import annotations

import pytest
import torch

from cgsa.engines import loss_kernels
from cgsa.offline.stacked_losses import add_reversed_gradient, condition_gradient, cross_entropy_gradient


@pytest.mark.parametrize(("windows", "classes", "conditions"), [(1, 2, 1), (100, 7, 2), (256, 4, 1)])
def test_losses_of_several_models_and_their_gradients(windows: int, classes: int, conditions: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(3, windows, classes, generator=generator)
    predicted = 6 * torch.randn(6, windows, conditions, generator=generator)
    labels = torch.randint(classes, (500,), generator=generator)
    measured = torch.rand(500, conditions, generator=generator)
    index = torch.randint(500, (3, windows), generator=generator)
    learns, sums, expected = torch.tensor([True, False, True]), torch.ones(3, 5).double(), torch.ones(3, 5).double()
    ours = loss_kernels.launch_cross_entropy(scores, labels, index, learns, sums)
    torch.testing.assert_close(
        ours, cross_entropy_gradient(scores, labels, index, learns, expected), rtol=1e-4, atol=1e-7
    )
    ours = loss_kernels.launch_condition_loss(predicted, measured, index, learns, sums, bounds=(-7.0, 7.0))
    plain = condition_gradient(predicted, measured, index, learns, expected, bounds=(-7.0, 7.0))
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(sums, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(sums[1], torch.ones(5).double())


def test_the_gradient_of_the_discriminators_is_reversed() -> None:
    gradient, branches, coefficient = torch.randn(2, 30, 70), torch.randn(4, 30, 70), torch.tensor([0.5, 0.0])
    expected = add_reversed_gradient(gradient, branches, coefficient)
    loss_kernels.launch_gradient_reversal(gradient, branches, coefficient)
    torch.testing.assert_close(gradient, expected)
