from __future__ import annotations

import torch

from cgsa.nn.mlp import count_parameters
from cgsa.nn.volume import count_volume
from cgsa.online.cgsa import Cgsa
from cgsa.online.source import FrozenSource
from tests.machines import bundle, stream_windows


def test_a_pass_counts_every_parameter_once_for_any_batch_size() -> None:
    network = bundle().network.requires_grad_()
    size = count_parameters(network)
    for windows in (1, 50):
        with count_volume() as volume:
            scores = network(torch.randn(windows, 2, 32))
        assert (volume.forward, volume.backward) == (size, 0)
        with count_volume() as volume:
            torch.autograd.backward(network(torch.randn(windows, 2, 32)).sum())
        assert (volume.forward, volume.backward) == (size, size)
    torch.autograd.backward(scores.sum())
    assert volume.backward == size


def test_volumes_of_the_papers_table() -> None:
    """Source: one forward. CGSA: student, frozen model and the mean branch forward, the student backward."""
    source = bundle()
    size = count_parameters(source.network)
    branch = count_parameters(source.require_discriminator().mean)
    x = stream_windows().gather(slice(0, 200))
    with count_volume() as volume:
        FrozenSource(source).step(x)
    assert (volume.forward, volume.backward) == (size, 0)
    with count_volume() as volume:
        output = Cgsa(source, {"tau": 1.0, "min_confidence": 0.0}).step(x)
    assert output.accepted is not None
    assert output.accepted.any()
    assert (volume.forward, volume.backward) == (2 * size + branch, size)
