from __future__ import annotations

import pytest
import torch
from torch import nn

from cgsa.data.windows import WindowSpec
from cgsa.nn.eight_bits import EightBitLayer, MovedRows, product
from cgsa.nn.first_layer import FrozenLayer, Sight, first_layer
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.nn.optim import adam_state, make_adam


def test_products_are_those_of_whole_numbers() -> None:
    left, right = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((64, 96), (96, 32)))
    assert torch.equal(product(left, right).long(), left.long() @ right.long())


def test_rows_are_rounded_by_their_own_scale() -> None:
    before = torch.randn(5, 70)
    weight = nn.Parameter(before + torch.tensor([0.0, 1e-6, 1e-3, 1.0, 1e3])[:, None] * torch.randn(5, 70))
    moved = MovedRows(weight, before)
    difference = (weight - before).detach()
    torch.testing.assert_close(moved.scales[1:], difference.abs().amax(dim=1)[1:] / 127)
    error = (moved.numbers * moved.scales[:, None] - difference).abs()
    assert bool((error <= 0.51 * moved.scales[:, None]).all())
    assert not moved.numbers[0].any()


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_learning_is_adam_in_one_pass(steps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(6, 50, generator=generator)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    moved, adam, expected = MovedRows(ours, start), make_adam([ours], 1e-3), torch.optim.Adam([theirs], lr=1e-3)
    for _ in range(steps):
        gradient = (1e-3 * torch.randn(6, 50, generator=generator)).to(torch.bfloat16)
        moved.learn(adam, gradient)
        theirs.grad = gradient.float()
        expected.step()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    for name, tensor in adam_state(adam).items():
        torch.testing.assert_close(tensor, adam_state(expected)[name], rtol=1e-4, atol=1e-9)
    # What it has rounded on its way is what it would round if it looked again.
    kept = moved.numbers.clone(), moved.scales.clone()
    moved.refresh()
    assert torch.equal(kept[0], moved.numbers)
    assert torch.equal(kept[1], moved.scales)


def test_small_gradients_are_not_lost_beside_large_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    network = build_seeded(0, lambda: DiagnosisNet(NetworkConfig(hidden=(16, 8), tap=8), 1, 64, 2))
    frozen, x = FrozenLayer(network, WindowSpec(64, 4)), torch.randn(200, 1, 64, generator=generator)
    layer = EightBitLayer(first_layer(network), frozen.layer)
    sight = Sight(network, x)
    # One window in twenty has a gradient a hundred times that of the others.
    sizes = torch.where(torch.arange(200) % 20 == 0, 1.0, 0.01)[:, None]
    gradient = sizes * torch.randn(200, 16, generator=generator)
    layer.backward(sight, gradient, None)
    exact = gradient.T @ sight.inputs
    assert float((layer._gradient - exact).norm() / exact.norm()) < 1e-2
