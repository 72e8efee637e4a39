from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.engines.first_layer import BatchInputs, FirstLayer, can_slide, first_layer
from cgsa.engines.sliding_layer import SlidingFirstLayer, TransformedLayer, TransformedSamples, slide, slide_both
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
    """The outputs of a layer for every window on its own, in double precision."""
    windows = [
        given[:, begin : begin + PAPER.length].reshape(-1)
        for begin in range(0, given.shape[1] - PAPER.length + 1, PAPER.step)
    ]
    return linear(torch.stack(windows).double(), layer.weight.double(), layer.bias.double()).detach()


@pytest.mark.parametrize("windows", [1, 63, 64, 65, 256, 300])
@pytest.mark.parametrize("channels", [1, 3])
def test_outputs_are_those_of_matrix_products(windows: int, channels: int) -> None:
    layer, other = (torch.nn.Linear(channels * PAPER.length, 64) for _ in range(2))
    given = samples(windows, channels)
    transformed = TransformedSamples.of(given, windows)
    alone = slide(transformed, layer)
    expected = literal(layer, given)
    assert float((alone - expected).abs().max()) < 1e-6 * (1 + float(expected.abs().max()))
    own, frozen = slide_both(transformed, layer, TransformedLayer(other, channels))
    torch.testing.assert_close(own, alone, rtol=0, atol=1e-6)
    torch.testing.assert_close(frozen.double(), literal(other, given), rtol=0, atol=1e-6)


@pytest.mark.parametrize("windows", [64, 200, 256, 520])
@pytest.mark.parametrize("some", [False, True])
def test_it_learns_as_matrix_products_do(windows: int, *, some: bool) -> None:
    net = network()
    frozen = first_layer(net)
    exact, sliding = (kind(deepcopy(frozen), frozen) for kind in (FirstLayer, SlidingFirstLayer))
    adams = [make_adam(one.layer.parameters(), 1e-3) for one in (exact, sliding)]
    generator = torch.Generator().manual_seed(2)
    rows = torch.arange(0, windows, 3) if some else None
    for step in range(3):
        batch = BatchInputs(net, overlapping_windows(samples(windows, seed=step), PAPER.length, PAPER.step))
        gradient = 1e-3 * torch.randn(windows if rows is None else len(rows), 1024, generator=generator)
        # Start from the same weights: the sign of a very small gradient is uncertain, and Adam follows it.
        sliding.layer.load_state_dict(exact.layer.state_dict())
        torch.testing.assert_close(sliding.forward(batch), exact.forward(batch), rtol=0, atol=2e-6)
        for one, adam in zip((exact, sliding), adams, strict=True):
            one.backward(batch, gradient, rows)
            one.layer.bias.grad = gradient.sum(dim=0)
            adam.step()
            one.learn(adam)
    expected, found = map(adam_state, adams)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6 * float(tensor.abs().max()))
    assert float((sliding.layer.weight - exact.layer.weight).abs().gt(1e-5).float().mean()) < 1e-3


def test_small_batches_and_windows_with_their_own_samples_are_multiplied() -> None:
    net = network()
    sliding = SlidingFirstLayer(first_layer(net), first_layer(network()))
    for x in (overlapping_windows(samples(63), PAPER.length, PAPER.step), torch.randn(100, 1, PAPER.length)):
        batch = BatchInputs(net, x)
        assert sliding.samples_of(batch) is None
        assert torch.equal(sliding.forward(batch), first_layer(net)(batch.windows))
        gradient = torch.randn(len(x), 1024)
        sliding.backward(batch, gradient, None)
        assert torch.equal(first_layer(net).weight.grad, gradient.T @ batch.windows)  # type: ignore[arg-type]


def test_both_layers_slide_in_one_pass() -> None:
    net, student = network(), network()
    with torch.no_grad():
        first_layer(student).weight.mul_(1.1)
    both = SlidingFirstLayer(first_layer(student), first_layer(net))
    batch = BatchInputs(net, overlapping_windows(samples(256), PAPER.length, PAPER.step))
    own, frozen = both.forward_both(batch)
    torch.testing.assert_close(frozen, first_layer(net)(batch.windows), rtol=0, atol=2e-6)
    torch.testing.assert_close(own, both.forward(batch), rtol=0, atol=1e-6)
    few = BatchInputs(net, overlapping_windows(samples(10), PAPER.length, PAPER.step))
    own, frozen = both.forward_both(few)
    assert torch.equal(own, first_layer(student)(few.windows))
    assert torch.equal(frozen, first_layer(net)(few.windows))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(threads: int) -> None:
    given = samples(256)
    layer = torch.nn.Linear(PAPER.length, 96)
    before = torch.get_num_threads()
    expected = slide(TransformedSamples.of(given, 256), layer)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(slide(TransformedSamples.of(given, 256), layer), expected)
    finally:
        torch.set_num_threads(before)


def test_only_large_layers_over_raw_windows_of_the_paper_can_slide() -> None:
    assert can_slide(network(), PAPER)
    assert not can_slide(network(), WindowSpec(1024, 32))
    assert not can_slide(network(width=992), PAPER)
    spectrum = NetworkConfig(frontend="spectrum", hidden=(1024, 8), tap=8)
    assert not can_slide(DiagnosisNet(spectrum, 4, PAPER.length, 3), PAPER)
