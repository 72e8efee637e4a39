"""Random augmentations of vibration windows that preserve the class.

Amplitude carries the load and the direction of time carries the fault, so
windows are never scaled by much, warped in time, reversed or shuffled. All
functions take raw windows (windows, channels, length); ``deviation`` is the
standard deviation of each channel over the training data, (channels, 1), so
that sizes mean the same in any unit.
"""

from __future__ import annotations

import torch
from torch import Tensor


def weak_view(x: Tensor, generator: torch.Generator, *, shift: int = 16) -> Tensor:
    """Return windows shifted in time by at most ``shift`` samples, wrapped around the ends."""
    windows, channels, length = x.shape
    by = torch.randint(-shift, shift + 1, (windows, 1), device=x.device, generator=generator)
    source = (torch.arange(length, device=x.device) + by) % length
    return x.gather(2, source[:, None, :].expand(-1, channels, -1))


def strong_view(
    x: Tensor,
    deviation: Tensor,
    generator: torch.Generator,
    *,
    jitter: float = 0.05,
    scale: float = 0.1,
    shift: int = 128,
) -> Tensor:
    """Return windows with noise, a gain per channel within 20 % of one, and a shift in time."""
    gain = 1 + scale * torch.randn(*x.shape[:2], 1, device=x.device, generator=generator)
    scaled = weak_view(x, generator, shift=shift) * gain.clamp(0.8, 1.2)
    return scaled + gaussian_noise(x, deviation, generator, size=jitter)


def gaussian_noise(x: Tensor, deviation: Tensor, generator: torch.Generator, *, size: float) -> Tensor:
    """Return noise of the shape of ``x`` with ``size`` times the deviation of each channel."""
    return size * deviation * torch.randn(x.shape, device=x.device, generator=generator)


def impulse_noise_view(
    x: Tensor, deviation: Tensor, generator: torch.Generator, *, share: float = 0.01, size: float = 3.0
) -> Tensor:
    """Return windows in which a ``share`` of the samples is replaced by plus or minus ``size`` deviations."""
    draw = torch.rand(x.shape, device=x.device, generator=generator)
    high, low = draw < share / 2, draw > 1 - share / 2
    return torch.where(high, size * deviation, torch.where(low, -size * deviation, x))


def magnitude_warp(x: Tensor, generator: torch.Generator, *, size: float = 0.1, knots: int = 4) -> Tensor:
    """Return windows multiplied by a smooth random curve around one, drawn separately for each channel."""
    windows, channels, length = x.shape
    heights = 1 + size * torch.randn(windows, channels, knots, device=x.device, generator=generator)
    curve = torch.nn.functional.interpolate(heights, size=length, mode="linear", align_corners=True)
    return x * curve
