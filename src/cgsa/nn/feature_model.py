"""What models on averaged spectra share: several kinds of features, and the usual samples of every channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cgsa.data.windows import WindowSpec
from cgsa.nn.frame_sums import RecentFrames
from cgsa.nn.spectra import FeatureConfig, WindowFeatures, build_features


class FeatureModel(nn.Module):
    """A model that takes several kinds of features from raw windows."""

    mean: Tensor
    deviation: Tensor
    """Mean and deviation of the samples of every channel in training, (channels, 1)."""

    def __init__(self, features: Sequence[FeatureConfig], channels: int, spec: WindowSpec) -> None:
        super().__init__()
        self.features = nn.ModuleList([build_features(one, channels, spec) for one in features])
        self.register_buffer("mean", torch.zeros(channels, 1))
        self.register_buffer("deviation", torch.ones(channels, 1))

    @torch.no_grad()
    def fit_channels(self, samples: Tensor) -> None:
        """Fit what depends on single channels to training samples, (channels, samples)."""
        # Double precision: a sum over millions of float32 samples would lose digits.
        exact = samples.double()
        deviation = exact.std(dim=1, correction=0, keepdim=True)
        self.mean.copy_(exact.mean(dim=1, keepdim=True))
        self.deviation.copy_(torch.where(deviation == 0, 1.0, deviation))
        for features in self.feature_modules():
            features.fit(samples)

    def feature_modules(self) -> list[WindowFeatures]:
        """Return the kinds of features."""
        return [one for one in self.features if isinstance(one, WindowFeatures)]

    @property
    def feature_count(self) -> int:
        """Number of features of all kinds."""
        return sum(one.out_features for one in self.feature_modules())

    def extract(self, x: Tensor, recent: RecentFrames | None = None) -> list[Tensor]:
        """Return the features of raw windows (windows, channels, length), one tensor for each kind.

        ``recent`` belongs to the stream that the windows are of: they are those that come next.
        """
        if recent is not None:
            recent.follow(x)
        return [features(x, recent) for features in self.feature_modules()]
