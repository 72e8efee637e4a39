from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cgsa.engines.chain import FEW, LearningChain
from cgsa.engines.first_layer import BatchView, ExactLayer, first_layer
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig


def network(dropout: float = 0.0, tap: int = 16) -> DiagnosisNet:
    torch.manual_seed(3)
    return DiagnosisNet(NetworkConfig(hidden=(64, 32, 16), tap=tap, dropout=dropout), 2, 32, 4)


@pytest.mark.parametrize("share", [1.0, FEW, 0.3, 0.02])
@pytest.mark.parametrize("tap", [16, 32, 64])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("skip", [False, True])
def test_gradients_are_those_of_autograd(*, share: float, tap: int, dropout: float, skip: bool) -> None:
    net = network(dropout, tap)
    x, labels = torch.randn(100, 2, 32), torch.arange(100) % 4
    learnt = torch.arange(100) < round(100 * share)
    scores = net(x)
    torch.autograd.backward(cross_entropy(scores[learnt], labels[learnt]))
    expected = [parameter.grad for parameter in net.parameters()]
    net.zero_grad()
    chain, sight = LearningChain(net, ExactLayer(first_layer(net)), skip=skip), BatchView(net, x)
    found = chain.forward(sight)
    assert torch.equal(found, scores)
    found.requires_grad_()
    chain.backward(torch.autograd.grad(cross_entropy(found[learnt], labels[learnt]), found)[0], learnt)
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert gradient is not None
        # Without the zeros of windows that are not learnt from, sums may be taken in another order.
        if share >= FEW or not skip:
            assert torch.equal(parameter.grad, gradient)
        else:
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)


def test_what_is_no_chain_is_refused() -> None:
    net = network()
    net.G = nn.Sequential(nn.Tanh(), nn.Linear(16, 4))
    with pytest.raises(TypeError, match="layer Tanh"):
        LearningChain(net, ExactLayer(first_layer(net)))
