from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from cgsa.data.windows import WindowSpec, overlapping
from cgsa.nn.eight_bits import EightBitLayer
from cgsa.nn.first_layer import ExactLayer, FrozenLayer, Sight, first_layer, in_eight_bits
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig
from cgsa.nn.optim import make_adam

SPEC = WindowSpec(64, 4)


def network(frontend: str = "raw", *, reference: bool = False) -> DiagnosisNet:
    torch.manual_seed(0)
    config = NetworkConfig(frontend=frontend, hidden=(24, 8), tap=8, reference=reference)
    made = DiagnosisNet(config, 2, SPEC.length, 3)
    samples = 3 + 2 * torch.randn(2, 500)
    made.frontend.fit(samples, overlapping(samples, SPEC.length, SPEC.step))
    return made


def windows(count: int = 50) -> torch.Tensor:
    samples = 3 + 2 * torch.randn(2, (count - 1) * SPEC.step + SPEC.length, generator=torch.Generator().manual_seed(1))
    return overlapping(samples, SPEC.length, SPEC.step)


@pytest.mark.parametrize("frontend", ["raw", "bands"])
@pytest.mark.parametrize("reference", [False, True])
def test_shared_samples_are_seen_as_if_windows_had_their_own(frontend: str, reference: bool) -> None:  # noqa: FBT001
    net, x = network(frontend, reference=reference), windows()
    shared, own = Sight(net, x), Sight(net, x.contiguous())
    assert (shared.samples is not None) == (frontend == "raw" and not reference)
    assert own.samples is None
    assert torch.equal(shared.inputs, own.inputs)
    frozen = FrozenLayer(net, SPEC)
    torch.testing.assert_close(frozen.forward(shared), frozen.forward(own), rtol=0, atol=2e-6)
    assert torch.equal(frozen.forward(own), first_layer(net)(own.inputs))


def test_eight_bits_are_right_to_half_a_step() -> None:
    values = torch.randn(30, 40)
    numbers, scale = in_eight_bits(values)
    assert numbers.dtype == torch.int8
    assert float((numbers * scale - values).abs().max()) <= float(scale) / 2 * 1.001
    assert float(numbers.abs().max()) == 127
    assert not in_eight_bits(torch.zeros(3, 4))[0].any()
    net, x = network(), windows()
    for sight in (Sight(net, x), Sight(net, x.contiguous())):
        numbers, scale = sight.eighths
        torch.testing.assert_close(numbers * scale, sight.inputs, rtol=0, atol=float(scale))


def moved_copy(layer: nn.Linear, by: float) -> nn.Linear:
    other = deepcopy(layer)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    return other


@pytest.mark.parametrize("rows", [None, torch.arange(50) % 3 == 0])
def test_eight_bits_err_by_a_hundredth_of_what_was_learnt(rows: torch.Tensor | None) -> None:
    net = network()
    before = first_layer(net)
    layer = moved_copy(before, 0.01)
    sight = Sight(net, windows())
    frozen = before(sight.inputs).detach()
    exact, quick = ExactLayer(layer), EightBitLayer(deepcopy(layer), before)
    expected = exact.forward(sight, frozen)
    assert torch.equal(expected, linear(sight.inputs, layer.weight, layer.bias))
    moved = (expected - frozen).abs().max()
    assert float((quick.forward(sight, frozen) - expected).abs().max()) < 0.03 * float(moved)
    gradient = torch.randn(50 if rows is None else int(rows.sum()), 24)
    for one in (exact, quick):
        one.backward(sight, gradient, rows)
    # Steps of plain Adam, but for single weights that have hardly a gradient and so an unsure sign.
    for one in (exact, quick):
        adam = make_adam(one.layer.parameters(), 1e-3)
        one.learn(adam)
        adam.step()
    apart = (quick.layer.weight - exact.layer.weight).abs()
    assert float((apart > 2e-4).float().mean()) < 0.01
    assert float((quick.forward(sight, frozen) - exact.forward(sight, frozen)).abs().max()) < 0.03 * float(moved)


def test_a_network_must_begin_with_a_linear_layer() -> None:
    net = network()
    net.F = nn.Sequential(nn.ReLU())
    with pytest.raises(TypeError, match="begins with ReLU"):
        first_layer(net)
