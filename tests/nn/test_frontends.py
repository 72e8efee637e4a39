from __future__ import annotations

import torch

from cgsa.nn.frontends import RawFrontend


def test_scaling_comes_from_the_training_samples() -> None:
    frontend = RawFrontend(2, 4)
    samples = torch.tensor([[1.0, 3.0, 1.0, 3.0], [10.0, 10.0, 30.0, 30.0]])
    frontend.fit(samples)
    expected = torch.tensor([[[-1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, 1.0, 1.0]]])
    torch.testing.assert_close(frontend.scale(samples[None]), expected)
    torch.testing.assert_close(frontend(samples[None]), expected.flatten(1))


def test_scaling_of_a_large_offset_keeps_its_digits() -> None:
    frontend = RawFrontend(1, 4)
    noise = torch.randn(1, 1_000_000, generator=torch.Generator().manual_seed(0))
    frontend.fit(noise + 1000.0)
    torch.testing.assert_close(frontend.deviation, noise.std(dim=1, keepdim=True), rtol=1e-3, atol=0)


def test_a_dead_channel_becomes_zero_not_nan() -> None:
    frontend = RawFrontend(1, 4)
    frontend.fit(torch.full((1, 100), 5.0))
    assert torch.equal(frontend(torch.full((1, 1, 4), 5.0)), torch.zeros(1, 4))
