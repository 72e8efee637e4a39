"""What the network does to a window before its first weight.

A front-end takes raw physical samples, (windows, channels, length), and gives
the features that the extractor sees. It carries the scaling learnt from the
training data, so a bundle treats a live window exactly as training did.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from cgsa.registry import Registry

FRONTENDS: Registry[type[Frontend]]


class Frontend(nn.Module):
    """Scales each channel by the mean and deviation of the training data.

    Parameters
    ----------
    channels, length
        Shape of a window.
    """

    out_features: int
    """Numbers that the extractor sees for one window."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        self.window_shape = (channels, length)
        self.register_buffer("mean", torch.zeros(channels, 1))
        self.register_buffer("deviation", torch.ones(channels, 1))

    def fit(self, samples: Tensor) -> None:
        """Learn the scaling from raw training samples, (channels, samples)."""
        # Double precision: a sum over millions of float32 samples would lose digits.
        exact = samples.to(torch.float64)
        deviation = exact.std(dim=1, correction=0, keepdim=True)
        # A dead channel carries nothing; dividing by its zero deviation would make it NaN.
        deviation[deviation == 0] = 1.0
        cast(Tensor, self.mean).copy_(exact.mean(dim=1, keepdim=True))
        cast(Tensor, self.deviation).copy_(deviation)

    def scale(self, x: Tensor) -> Tensor:
        """Return windows with every channel scaled."""
        return (x - cast(Tensor, self.mean)) / cast(Tensor, self.deviation)


class RawFrontend(Frontend):
    """The paper's input: the scaled samples themselves, channel after channel."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__(channels, length)
        self.out_features = channels * length

    def forward(self, x: Tensor) -> Tensor:
        """Return (windows, channels * length)."""
        return self.scale(x).flatten(1)


FRONTENDS = Registry("front-end", "cgsa.frontends", {"raw": "cgsa.nn.frontends:RawFrontend"})
