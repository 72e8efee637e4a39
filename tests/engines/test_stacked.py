from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cgsa.engines.stacked import StackedNetworks
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded

LR = 0.01
FEATURES, CLASSES = 3 * 20, 3


@pytest.fixture
def source() -> DiagnosisNet:
    # A tap inside the chain and dropout, which is inactive.
    config = NetworkConfig(hidden=(33, 16, 8), tap=16, dropout=0.1)
    return build_seeded(0, lambda: DiagnosisNet(config, 3, 20, CLASSES)).eval()


@pytest.mark.parametrize("count", [1, 3])
def test_stacked_networks_learn_as_they_would_alone(source: DiagnosisNet, count: int) -> None:
    generator = torch.Generator().manual_seed(1)
    stacked = StackedNetworks(source, count, LR)
    alone = [deepcopy(source) for _ in range(count)]
    adams = [torch.optim.Adam(network.parameters(), lr=LR) for network in alone]
    for turn in range(4):
        inputs = torch.randn(count, 10, FEATURES, generator=generator)
        label = torch.randint(CLASSES, (count, 10), generator=generator)
        learns = torch.arange(count) != turn % (count + 1)
        scores = stacked.forward(inputs)
        expected = [network(x) for network, x in zip(alone, inputs, strict=True)]
        torch.testing.assert_close(scores, torch.stack(expected).detach())
        for place in learns.nonzero().flatten().tolist():
            adams[place].zero_grad()
            torch.autograd.backward(cross_entropy(expected[place], label[place]))
            adams[place].step()
        target = nn.functional.one_hot(label, CLASSES)
        stacked.learn((torch.softmax(scores, dim=2) - target) / 10, learns)
    for place, network in enumerate(alone):
        for ours, theirs in zip(stacked.parameters(place), network.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs.detach())


def test_transposed_inputs_give_the_same_gradient(source: DiagnosisNet, monkeypatch: pytest.MonkeyPatch) -> None:
    def product(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype, *, out: torch.Tensor) -> None:
        # A GPU sums in single precision; a CPU has no such product.
        assert left.is_contiguous()
        out.copy_(torch.bmm(left.to(dtype), right.to(dtype)))

    monkeypatch.setattr(torch.ops.aten.bmm, "dtype_out", product)
    inputs = torch.randn(2, 10, FEATURES, generator=torch.Generator().manual_seed(1))
    gradient = torch.randn(2, 10, CLASSES, generator=torch.Generator().manual_seed(2))
    plain, transposed = StackedNetworks(source, 2, LR), StackedNetworks(source, 2, LR)
    plain.forward(inputs)
    transposed.forward(inputs, inputs.transpose(1, 2).to(torch.bfloat16))
    for networks in (plain, transposed):
        networks.learn(gradient, torch.tensor([True, True]))
    apart = (plain.adam.means - transposed.adam.means).norm() / plain.adam.means.norm()
    assert 0 < apart < 0.01


def test_one_starts_anew_and_the_others_do_not(source: DiagnosisNet) -> None:
    stacked = StackedNetworks(source, 2, LR)
    stacked.learn(stacked.forward(torch.randn(2, 4, FEATURES)), torch.tensor([True, True]))
    stacked.restart(1)
    for place, same in ((0, False), (1, True)):
        pairs = zip(stacked.parameters(place), source.parameters(), strict=True)
        assert all(torch.equal(ours, theirs.detach()) for ours, theirs in pairs) == same


def test_networks_share_memory_for_their_gradients(source: DiagnosisNet) -> None:
    memory = StackedNetworks.rows(source, 3)
    alone, shared = StackedNetworks(source, 2, LR), [StackedNetworks(source, 2, LR, memory) for _ in range(2)]
    inputs = torch.randn(2, 4, FEATURES)
    for networks in (alone, *shared):
        networks.learn(networks.forward(inputs), torch.tensor([True, False]))
    for networks in shared:
        assert torch.equal(networks.weights, alone.weights)


def test_other_layers_are_refused(source: DiagnosisNet) -> None:
    source.F.insert(1, nn.Tanh())
    with pytest.raises(TypeError, match="Tanh in a chain"):
        StackedNetworks(source, 1, LR)
