"""Fixed transforms of a window before the first trained layer.

A front-end turns raw physical samples, (windows, channels, length), into the
input of the feature extractor. It includes the scaling fitted to the training
data, so a bundle treats a live window exactly as training did.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d

from cgsa.data.windows import overlapping_windows, underlying_samples
from cgsa.registry import Registry

FRONTENDS: Registry[type[Frontend]]

PART = 32
"""Windows whose spectra are computed at a time: those of hundreds fit into no cache, and the memory for them would be
asked of the operating system for every batch anew. The features of a window do not depend on its neighbours."""


class Frontend(nn.Module):
    """Base of the front-ends; scales each channel by the mean and deviation of the training data."""

    out_features: int
    """Width of the output."""
    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        self.window_shape = (channels, length)
        self.register_buffer("mean", torch.zeros(channels, 1))
        self.register_buffer("deviation", torch.ones(channels, 1))

    def fit(self, samples: Tensor, windows: Tensor) -> None:
        """Fit the scaling to training data: raw samples, (channels, samples), and some windows of them."""
        # Double precision: a sum over millions of float32 samples would lose digits.
        exact = samples.to(torch.float64)
        self.mean.copy_(exact.mean(dim=1, keepdim=True))
        self.deviation.copy_(_usable(exact.std(dim=1, correction=0, keepdim=True)))
        self.fit_features(windows)

    def fit_features(self, windows: Tensor) -> None:
        """Fit further parameters, once the channels are scaled."""

    def scale(self, x: Tensor) -> Tensor:
        """Return samples with every channel scaled."""
        return (x - self.mean) / self.deviation

    def scale_windows(self, x: Tensor) -> Tensor:
        """Return scaled windows; samples shared by overlapping windows are scaled once."""
        shared = underlying_samples(x)
        if shared is None:
            return self.scale(x)
        samples, step = shared
        return overlapping_windows(self.scale(samples), x.shape[2], step)


class RawFrontend(Frontend):
    """The paper's input: the scaled samples, channel after channel."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__(channels, length)
        self.out_features = channels * length

    def forward(self, x: Tensor) -> Tensor:
        """Return (windows, channels * length)."""
        return self.scale_windows(x).flatten(1)


class SpectrumFrontend(Frontend):
    """The log-magnitude spectrum of every channel.

    The spectrum does not change when a window is shifted in time, and a higher
    load raises every line by about the same amount. Each feature is scaled by
    its mean and deviation over the training windows.
    """

    feature_mean: Tensor
    feature_deviation: Tensor
    taper: Tensor

    def __init__(self, channels: int, length: int) -> None:
        super().__init__(channels, length)
        self.out_features = channels * self.count(length)
        self.register_buffer("feature_mean", torch.zeros(channels, self.count(length)))
        self.register_buffer("feature_deviation", torch.ones(channels, self.count(length)))
        self.register_buffer("taper", torch.hann_window(length))
        # A millionth of the power that white noise of unit deviation has in every bin.
        self.least_magnitude = 1e-3 * (0.375 * length) ** 0.5

    def count(self, length: int) -> int:
        """Return the number of features per channel: one per bin, without the mean."""
        return length // 2

    def features(self, x: Tensor) -> Tensor:
        """Return unscaled features, (windows, channels, features)."""
        scaled = self.scale_windows(x)
        # On a GPU, the whole batch at once is faster.
        size = PART if scaled.device.type == "cpu" else len(scaled)
        return torch.cat([self.features_of_scaled(scaled[n : n + size]) for n in range(0, len(scaled), size)])

    def features_of_scaled(self, scaled: Tensor) -> Tensor:
        """Return unscaled features of windows whose samples are scaled, (windows, channels, features)."""
        return torch.log(self.magnitude(scaled) + self.least_magnitude)

    def magnitude(self, scaled: Tensor) -> Tensor:
        """Return the magnitude spectrum of windows whose samples are scaled, (windows, channels, bins)."""
        centred = scaled - scaled.mean(dim=-1, keepdim=True)
        return _magnitude(torch.fft.rfft(centred * self.taper))[..., 1:]

    def fit_features(self, windows: Tensor) -> None:
        """Fit mean and deviation of every feature."""
        features = self.features(windows).to(torch.float64)
        self.feature_mean.copy_(features.mean(dim=0))
        self.feature_deviation.copy_(_usable(features.std(dim=0, correction=0)))

    def forward(self, x: Tensor) -> Tensor:
        """Return (windows, channels * features)."""
        scaled = (self.features(x) - self.feature_mean) / self.feature_deviation
        return scaled.flatten(1)


class BandFrontend(SpectrumFrontend):
    """The log-magnitude spectrum averaged over neighbouring bins into a few bands.

    When the speed changes, lines leave the bin in which they were during
    training, but rarely the band.
    """

    BANDS = 48
    """Chosen on real machines by accuracy at a condition held out of training (``benchmarks/left_out.py``)."""

    def count(self, length: int) -> int:
        """Return the number of bands per channel."""
        return min(self.BANDS, length // 2)

    def features_of_scaled(self, scaled: Tensor) -> Tensor:
        """Return unscaled features of windows whose samples are scaled, (windows, channels, bands)."""
        return adaptive_avg_pool1d(super().features_of_scaled(scaled), self.count(self.window_shape[1]))


class MagnitudeFrontend(BandFrontend):
    """Bands of the magnitudes instead of their logarithms.

    The logarithm gives the noise between lines as much weight as the lines. At
    a low sample rate, lines fill most informative bands, and the rest is better
    kept small.
    """

    def features_of_scaled(self, scaled: Tensor) -> Tensor:
        """Return unscaled features of windows whose samples are scaled, (windows, channels, bands)."""
        return adaptive_avg_pool1d(self.magnitude(scaled), self.count(self.window_shape[1]))


def _magnitude(lines: Tensor) -> Tensor:
    if lines.requires_grad:
        # The square root below has no finite gradient where a line is zero.
        return lines.abs()
    # Three times as fast as abs, which guards against underflow of the squares.
    return (lines.real.square() + lines.imag.square()).sqrt_()


def _usable(deviation: Tensor) -> Tensor:
    """Return deviations to divide by: a constant feature must not become NaN."""
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
