from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.engines.first_layer import BatchView, ExactLayer, FrozenLayer, LearningLayer, first_layer, slides
from cgsa.engines.sliding_layer import SlidingLayer, TransformedLayer, TransformedSamples, slide, slide_beside
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.nn.optim import adam_state, make_adam

PAPER = WindowSpec()


def network(channels: int = 1, width: int = 1024) -> DiagnosisNet:
    config = NetworkConfig(hidden=(width, 8), tap=8)
    return build_seeded(0, lambda: DiagnosisNet(config, channels, PAPER.length, 3))


def samples(windows: int, channels: int = 1, seed: int = 1) -> Tensor:
    count = (windows - 1) * PAPER.step + PAPER.length
    return torch.randn(channels, count, generator=torch.Generator().manual_seed(seed))


def literal(layer: torch.nn.Linear, given: Tensor) -> Tensor:
    """What a layer makes of every window, laid out by itself, in double precision."""
    windows = [
        given[:, begin : begin + PAPER.length].reshape(-1)
        for begin in range(0, given.shape[1] - PAPER.length + 1, PAPER.step)
    ]
    return linear(torch.stack(windows).double(), layer.weight.double(), layer.bias.double()).detach()


@pytest.mark.parametrize("windows", [1, 63, 64, 65, 256, 300])
@pytest.mark.parametrize("channels", [1, 3])
def test_products_are_those_of_all_windows(windows: int, channels: int) -> None:
    layer, other = (torch.nn.Linear(channels * PAPER.length, 64) for _ in range(2))
    given = samples(windows, channels)
    turned = TransformedSamples.of(given, windows)
    alone = slide(turned, layer)
    expected = literal(layer, given)
    assert float((alone - expected).abs().max()) < 1e-6 * (1 + float(expected.abs().max()))
    both = slide_beside(turned, TransformedLayer(other, channels), layer)
    torch.testing.assert_close(both[1], alone, rtol=0, atol=1e-6)
    torch.testing.assert_close(both[0].double(), literal(other, given), rtol=0, atol=1e-6)


@pytest.mark.parametrize("windows", [64, 200, 256, 520])
@pytest.mark.parametrize("some", [False, True])
def test_it_learns_as_the_exact_layer_does(windows: int, *, some: bool) -> None:
    net = network()
    exact, sliding = ExactLayer(deepcopy(first_layer(net))), SlidingLayer(deepcopy(first_layer(net)))
    adams = [make_adam(one.layer.parameters(), 1e-3) for one in (exact, sliding)]
    generator = torch.Generator().manual_seed(2)
    rows = torch.arange(0, windows, 3) if some else None
    for step in range(3):
        sight = BatchView(net, overlapping_windows(samples(windows, seed=step), PAPER.length, PAPER.step))
        gradient = 1e-3 * torch.randn(windows if rows is None else len(rows), 1024, generator=generator)
        # From the same weights on: a weight that has hardly a gradient has an unsure sign, and goes its own way.
        sliding.layer.load_state_dict(exact.layer.state_dict())
        torch.testing.assert_close(sliding.forward(sight), exact.forward(sight), rtol=0, atol=2e-6)
        layers: tuple[LearningLayer, ...] = (exact, sliding)
        for one, adam in zip(layers, adams, strict=True):
            one.backward(sight, gradient, rows)
            one.layer.bias.grad = gradient.sum(dim=0)
            adam.step()
            one.learn(adam)
    expected, found = map(adam_state, adams)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6 * float(tensor.abs().max()))
    assert float((sliding.layer.weight - exact.layer.weight).abs().gt(1e-5).float().mean()) < 1e-3


def test_few_windows_and_windows_of_their_own_are_multiplied_as_they_are() -> None:
    net = network()
    sliding = SlidingLayer(first_layer(net))
    for x in (overlapping_windows(samples(63), PAPER.length, PAPER.step), torch.randn(100, 1, PAPER.length)):
        sight = BatchView(net, x)
        assert sight.turned is None
        assert torch.equal(sliding.forward(sight), first_layer(net)(sight.inputs))
        gradient = torch.randn(len(x), 1024)
        sliding.backward(sight, gradient, None)
        assert torch.equal(first_layer(net).weight.grad, gradient.T @ sight.inputs)  # type: ignore[arg-type]


def test_a_frozen_layer_slides_beside_one_that_learns() -> None:
    net, student = network(), network()
    with torch.no_grad():
        first_layer(student).weight.mul_(1.1)
    frozen, learning = FrozenLayer(net, PAPER), SlidingLayer(first_layer(student))
    sight = BatchView(net, overlapping_windows(samples(256), PAPER.length, PAPER.step))
    own, others = frozen.forward_beside(learning, sight)
    assert others is not None
    torch.testing.assert_close(own, frozen.forward(sight), rtol=0, atol=2e-6)
    torch.testing.assert_close(others, learning.forward(sight), rtol=0, atol=1e-6)
    few = BatchView(net, overlapping_windows(samples(10), PAPER.length, PAPER.step))
    assert frozen.forward_beside(learning, few)[1] is None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int) -> None:
    given = samples(256)
    layer = torch.nn.Linear(PAPER.length, 96)
    before = torch.get_num_threads()
    expected = slide(TransformedSamples.of(given, 256), layer)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(slide(TransformedSamples.of(given, 256), layer), expected)
    finally:
        torch.set_num_threads(before)


def test_only_large_layers_over_raw_windows_of_the_paper_slide() -> None:
    assert slides(network(), PAPER)
    assert not slides(network(), WindowSpec(1024, 32))
    assert not slides(network(width=992), PAPER)
    spectrum = NetworkConfig(frontend="spectrum", hidden=(1024, 8), tap=8)
    assert not slides(DiagnosisNet(spectrum, 4, PAPER.length, 3), PAPER)
