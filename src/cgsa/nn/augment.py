"""Random views of vibration windows that keep what the class depends on.

Amplitude carries load, and the direction of time carries the fault, so windows
are never scaled far, warped in time, reversed or shuffled. All views take raw
windows (windows, channels, length); ``deviation`` is that of each channel over
the training data, (channels, 1), so that sizes mean the same in any unit.
"""

from __future__ import annotations

import torch
from torch import Tensor


def weak_view(x: Tensor, generator: torch.Generator, *, shift: int = 16) -> Tensor:
    """Return windows moved in time by at most ``shift`` samples, around the ends."""
    windows, channels, length = x.shape
    by = torch.randint(-shift, shift + 1, (windows, 1), device=x.device, generator=generator)
    moved = (torch.arange(length, device=x.device) + by) % length
    return x.gather(2, moved[:, None, :].expand(-1, channels, -1))


def strong_view(
    x: Tensor,
    deviation: Tensor,
    generator: torch.Generator,
    *,
    jitter: float = 0.05,
    scale: float = 0.1,
    shift: int = 128,
) -> Tensor:
    """Return windows with noise, a gain a channel within 20 % of one, and a shift in time."""
    gain = 1 + scale * torch.randn(*x.shape[:2], 1, device=x.device, generator=generator)
    moved = weak_view(x, generator, shift=shift) * gain.clamp(0.8, 1.2)
    return moved + gaussian_noise(x, deviation, generator, size=jitter)


def gaussian_noise(x: Tensor, deviation: Tensor, generator: torch.Generator, *, size: float) -> Tensor:
    """Return noise in the shape of ``x``, of ``size`` times the channel's deviation."""
    return size * deviation * torch.randn(x.shape, device=x.device, generator=generator)


def impulse_noise_view(
    x: Tensor, deviation: Tensor, generator: torch.Generator, *, share: float = 0.01, size: float = 3.0
) -> Tensor:
    """Return windows in which a ``share`` of samples is thrown to plus or minus ``size`` deviations."""
    draw = torch.rand(x.shape, device=x.device, generator=generator)
    high, low = draw < share / 2, draw > 1 - share / 2
    return torch.where(high, size * deviation, torch.where(low, -size * deviation, x))


def magnitude_warp(x: Tensor, generator: torch.Generator, *, size: float = 0.1, knots: int = 4) -> Tensor:
    """Return windows multiplied by a smooth random curve around one, another for each channel."""
    windows, channels, length = x.shape
    heights = 1 + size * torch.randn(windows, channels, knots, device=x.device, generator=generator)
    curve = torch.nn.functional.interpolate(heights, size=length, mode="linear", align_corners=True)
    return x * curve
