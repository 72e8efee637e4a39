from __future__ import annotations

import pytest
import torch
from torch import nn

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.engines.first_layer import BatchInputs, FirstLayer, first_layer
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig

SPEC = WindowSpec(64, 4)


def network(frontend: str = "raw", *, reference: bool = False) -> DiagnosisNet:
    torch.manual_seed(0)
    config = NetworkConfig(frontend=frontend, hidden=(24, 8), tap=8, reference=reference)
    made = DiagnosisNet(config, 2, SPEC.length, 3)
    samples = 3 + 2 * torch.randn(2, 500)
    made.frontend.fit(samples, overlapping_windows(samples, SPEC.length, SPEC.step))
    return made


def windows(count: int = 50) -> torch.Tensor:
    samples = 3 + 2 * torch.randn(2, (count - 1) * SPEC.step + SPEC.length, generator=torch.Generator().manual_seed(1))
    return overlapping_windows(samples, SPEC.length, SPEC.step)


@pytest.mark.parametrize("frontend", ["raw", "bands"])
@pytest.mark.parametrize("reference", [False, True])
def test_overlapping_windows_give_the_same_as_windows_with_their_own_samples(frontend: str, reference: bool) -> None:  # noqa: FBT001
    net, x = network(frontend, reference=reference), windows()
    shared, own = BatchInputs(net, x), BatchInputs(net, x.contiguous())
    assert (shared.samples is not None) == (frontend == "raw" and not reference)
    assert own.samples is None
    assert torch.equal(shared.windows, own.windows)
    layers = FirstLayer(first_layer(net), first_layer(network(frontend, reference=reference)))
    for found in (*layers.forward_both(shared), layers.forward(own)):
        assert torch.equal(found, first_layer(net)(own.windows))


def test_a_network_must_begin_with_a_linear_layer() -> None:
    net = network()
    net.F = nn.Sequential(nn.ReLU())
    with pytest.raises(TypeError, match="begins with ReLU"):
        first_layer(net)
