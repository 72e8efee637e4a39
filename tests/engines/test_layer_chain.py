from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cgsa.engines.first_layer import BatchInputs, FirstLayer, first_layer
from cgsa.engines.layer_chain import GATHER_BELOW, LayerChain
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig


def network(dropout: float = 0.0, tap: int = 16) -> DiagnosisNet:
    torch.manual_seed(3)
    return DiagnosisNet(NetworkConfig(hidden=(64, 32, 16), tap=tap, dropout=dropout), 2, 32, 4)


@pytest.mark.parametrize("share", [1.0, GATHER_BELOW, 0.3, 0.02])
@pytest.mark.parametrize("tap", [16, 32, 64])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("mixed", [False, True])
def test_gradients_are_those_of_autograd(*, share: float, tap: int, dropout: float, mixed: bool) -> None:
    net = network(dropout, tap)
    x, labels = torch.randn(100, 2, 32), torch.arange(100) % 4
    accepted = torch.arange(100) < round(100 * share)
    scores = net(x)
    torch.autograd.backward(cross_entropy(scores[accepted], labels[accepted]))
    expected = [parameter.grad for parameter in net.parameters()]
    net.zero_grad()
    first, batch = FirstLayer(first_layer(net), first_layer(net)), BatchInputs(net, x)
    # Layers this small are not rounded.
    chain = LayerChain(net, first, mixed=mixed)
    found = chain.forward(first.forward(batch))
    assert torch.equal(found, scores)
    found.requires_grad_()
    chain.backward(batch, torch.autograd.grad(cross_entropy(found[accepted], labels[accepted]), found)[0], accepted)
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert gradient is not None
        # Without the zeros of rejected windows, sums may be taken in another order.
        if share >= GATHER_BELOW or not mixed:
            assert torch.equal(parameter.grad, gradient)
        else:
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)


def test_other_layers_are_rejected() -> None:
    net = network()
    net.G = nn.Sequential(nn.Tanh(), nn.Linear(16, 4))
    with pytest.raises(TypeError, match="layer Tanh"):
        LayerChain(net, FirstLayer(first_layer(net), first_layer(net)))
