from __future__ import annotations

import pytest
import torch

from cgsa.nn.augment import gaussian_noise, impulse_noise_view, magnitude_warp, strong_view, weak_view

X = torch.randn(50, 3, 64, generator=torch.Generator().manual_seed(0))
DEVIATION = torch.tensor([[1.0], [2.0], [0.5]])


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


VIEWS = {
    "weak": lambda g: weak_view(X, g),
    "strong": lambda g: strong_view(X, DEVIATION, g),
    "impulse": lambda g: impulse_noise_view(X, DEVIATION, g),
    "warp": lambda g: magnitude_warp(X, g),
    "noise": lambda g: gaussian_noise(X, DEVIATION, g, size=0.1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_depend_only_on_their_generator(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = VIEWS[name](generator()), VIEWS[name](generator()), VIEWS[name](generator(2))
    assert first.shape == X.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_weak_view_shifts_all_channels_of_a_window_together() -> None:
    moved = weak_view(X, generator(), shift=5)
    for window, original in zip(moved, X, strict=True):
        assert any(torch.equal(window, original.roll(by, dims=1)) for by in range(-5, 6))


def test_noise_follows_the_deviation_of_its_channel() -> None:
    noise = gaussian_noise(torch.zeros(500, 3, 64), DEVIATION, generator(), size=0.1)
    torch.testing.assert_close(noise.std(dim=(0, 2)), 0.1 * DEVIATION[:, 0], rtol=0.02, atol=0)


def test_impulses_replace_their_share_of_samples_only() -> None:
    hit = impulse_noise_view(X, DEVIATION, generator(), share=0.1) != X
    assert hit.float().mean().item() == pytest.approx(0.1, abs=0.02)
    values = impulse_noise_view(X, DEVIATION, generator(), share=0.1)[hit].abs()
    assert set(values.tolist()) <= {3.0, 6.0, 1.5}


def test_gains_are_within_20_percent() -> None:
    ones = torch.ones(500, 3, 8)
    view = strong_view(ones, DEVIATION, generator(), jitter=0.0, scale=1.0)
    assert view.min() >= 0.8
    assert view.max() <= 1.2
