"""What the network does to a window before its first weight.

A front-end takes raw physical samples, (windows, channels, length), and gives
the features that the extractor sees. It carries the scaling learnt from the
training data, so a bundle treats a live window exactly as training did.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d

from cgsa.data.windows import overlapping_windows, underlying_samples
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

    def fit(self, samples: Tensor, windows: Tensor) -> None:
        """Learn the scaling from training data: raw samples, (channels, samples), and some windows of them."""
        # Double precision: a sum over millions of float32 samples would lose digits.
        exact = samples.to(torch.float64)
        cast(Tensor, self.mean).copy_(exact.mean(dim=1, keepdim=True))
        cast(Tensor, self.deviation).copy_(_usable(exact.std(dim=1, correction=0, keepdim=True)))
        self.fit_features(windows)

    def fit_features(self, windows: Tensor) -> None:
        """Learn what else there is to learn, once channels are scaled."""

    def scale(self, x: Tensor) -> Tensor:
        """Return windows with every channel scaled."""
        return (x - cast(Tensor, self.mean)) / cast(Tensor, self.deviation)

    def scale_windows(self, x: Tensor) -> Tensor:
        """Return the same; of windows that share samples, every sample is scaled once."""
        shared = underlying_samples(x)
        if shared is None:
            return self.scale(x)
        samples, step = shared
        return overlapping_windows(self.scale(samples), x.shape[2], step)


class RawFrontend(Frontend):
    """The paper's input: the scaled samples themselves, channel after channel."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__(channels, length)
        self.out_features = channels * length

    def forward(self, x: Tensor) -> Tensor:
        """Return (windows, channels * length)."""
        return self.scale_windows(x).flatten(1)


class SpectrumFrontend(Frontend):
    """The logarithm of the magnitude spectrum of every channel.

    Shifted in time, a window keeps its spectrum, and a machine that runs harder
    moves every line by about the same amount. Each feature is scaled by its mean
    and deviation over training windows.
    """

    def __init__(self, channels: int, length: int) -> None:
        super().__init__(channels, length)
        self.out_features = channels * self.count(length)
        self.register_buffer("feature_mean", torch.zeros(channels, self.count(length)))
        self.register_buffer("feature_deviation", torch.ones(channels, self.count(length)))
        self.register_buffer("taper", torch.hann_window(length))
        # White noise of unit deviation has about this magnitude in every bin; a millionth of its power is silence.
        self._floor = 1e-3 * (0.375 * length) ** 0.5

    def count(self, length: int) -> int:
        """Return the features of one channel: a bin each, the mean left out."""
        return length // 2

    def features(self, x: Tensor) -> Tensor:
        """Return unscaled features, (windows, channels, features)."""
        return torch.log(self.magnitude(x) + self._floor)

    def magnitude(self, x: Tensor) -> Tensor:
        """Return the magnitude spectrum, (windows, channels, bins)."""
        scaled = self.scale_windows(x)
        centred = scaled - scaled.mean(dim=-1, keepdim=True)
        return _magnitude(torch.fft.rfft(centred * cast(Tensor, self.taper)))[..., 1:]

    def fit_features(self, windows: Tensor) -> None:
        """Learn mean and deviation of every feature."""
        features = self.features(windows).to(torch.float64)
        cast(Tensor, self.feature_mean).copy_(features.mean(dim=0))
        cast(Tensor, self.feature_deviation).copy_(_usable(features.std(dim=0, correction=0)))

    def forward(self, x: Tensor) -> Tensor:
        """Return (windows, channels * features)."""
        scaled = (self.features(x) - cast(Tensor, self.feature_mean)) / cast(Tensor, self.feature_deviation)
        return scaled.flatten(1)


class BandFrontend(SpectrumFrontend):
    """The same, averaged over neighbouring bins into a few bands.

    Lines move when the speed does, and leave the bin in which training saw
    them; they rarely leave the band.
    """

    BANDS = 48
    """Chosen on real machines by accuracy at a condition left out of training (``benchmarks/left_out.py``)."""

    def count(self, length: int) -> int:
        """Return the bands of one channel."""
        return min(self.BANDS, length // 2)

    def features(self, x: Tensor) -> Tensor:
        """Return unscaled features, (windows, channels, bands)."""
        return adaptive_avg_pool1d(super().features(x), self.count(self.window_shape[1]))


class MagnitudeFrontend(BandFrontend):
    """Bands of the magnitudes themselves, not of their logarithms.

    A logarithm makes as much of the noise between lines as of the lines. With
    few samples a second, lines fill most bands that tell anything, and the rest
    is better left small.
    """

    def features(self, x: Tensor) -> Tensor:
        """Return unscaled features, (windows, channels, bands)."""
        return adaptive_avg_pool1d(self.magnitude(x), self.count(self.window_shape[1]))


def _magnitude(lines: Tensor) -> Tensor:
    """Return the magnitude of complex numbers."""
    if lines.requires_grad:
        # Where a line is zero, only this one has a gradient that is a number.
        return lines.abs()
    # Three times as quick, for it need not care for numbers whose square is none.
    return (lines.real.square() + lines.imag.square()).sqrt_()


def _usable(deviation: Tensor) -> Tensor:
    """Return deviations to divide by: what never changes carries nothing, and must not become NaN."""
    return torch.where(deviation == 0, torch.ones_like(deviation), deviation)


FRONTENDS = Registry(
    "front-end",
    "cgsa.frontends",
    {
        "raw": "cgsa.nn.frontends:RawFrontend",
        "spectrum": "cgsa.nn.frontends:SpectrumFrontend",
        "bands": "cgsa.nn.frontends:BandFrontend",
        "magnitudes": "cgsa.nn.frontends:MagnitudeFrontend",
    },
)
