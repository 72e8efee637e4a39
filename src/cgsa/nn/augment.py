"""Random views of vibration windows that keep what the class depends on.

Amplitude carries load, and the direction of time carries the fault, so windows
are never scaled far, warped, reversed or shuffled.
"""

from __future__ import annotations

import torch
from torch import Tensor


def strong_view(
    x: Tensor,
    deviation: Tensor,
    generator: torch.Generator,
    *,
    jitter: float = 0.05,
    scale: float = 0.1,
    shift: int = 128,
) -> Tensor:
    """Return windows (windows, channels, length) with noise, a gain a channel and a circular shift.

    ``jitter`` is relative to the channel's ``deviation`` over the training data;
    gains stay within 20 % of one.
    """
    windows, channels, length = x.shape
    gain = 1 + scale * torch.randn(windows, channels, 1, device=x.device, generator=generator)
    moved = (
        torch.arange(length, device=x.device)
        + torch.randint(-shift, shift + 1, (windows, 1), device=x.device, generator=generator)
    ) % length
    rolled = x.gather(2, moved[:, None, :].expand(-1, channels, -1))
    noise = torch.randn(x.shape, device=x.device, generator=generator)
    return rolled * gain.clamp(0.8, 1.2) + jitter * deviation * noise
