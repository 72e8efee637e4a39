"""The first layer over windows that overlap, forward and backward, for a fraction of its products.

Its products with all windows of a batch, and the gradient of its weights, are
correlations along the samples that the windows share, taken through Fourier
transforms (:mod:`cgsa.engines.lanes`). A student's weights are others in every batch,
so they are transformed anew, row by row: a row, its transform and its gradient
fit into a cache, and Adam's step is taken while they are there. Those of a frozen
layer are transformed once. Sums are taken in
another order than products of matrices take them, and are as near to the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad
from torch.optim import Adam

from cgsa.engines import lanes
from cgsa.engines.first_layer import ROWS, BatchView
from cgsa.engines.registers import LANES
from cgsa.engines.threads import share_out

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TransformedSamples:
    """Transforms of the samples that the windows of a batch share."""

    windows: int
    tiles: int
    """Stretches of 64 windows."""
    by_frequency: Floats
    by_channel: Floats

    @classmethod
    def of(cls, samples: Tensor, windows: int) -> TransformedSamples:
        """Transform samples, (channels, samples), of so many windows at step 16."""
        channels = len(samples)
        tiles = -(-windows // (lanes.BLOCKS * lanes.TILES)) * lanes.TILES
        whole = pad(samples, (0, (tiles + 1) * lanes.LENGTH - samples.shape[1]))
        by_frequency = _empty(tiles // lanes.TILES, lanes.BLOCKS, channels, lanes.TILES, 2, LANES)
        by_channel = _empty(2, tiles, channels, lanes.LENGTH)
        lanes.transform_samples(whole.numpy(), lanes.workspace(), by_frequency, by_channel)
        return cls(windows, tiles, by_frequency.reshape(-1), by_channel)

    @property
    def channels(self) -> int:
        """Of the samples."""
        return int(self.by_channel.shape[2])


class TransformedLayer:
    """A layer that will not change, whose weights are transformed once: that takes twice their room.

    Parameters
    ----------
    layer
        The layer.
    channels
        Of the samples.
    """

    def __init__(self, layer: nn.Linear, channels: int) -> None:
        self.layer = layer
        weight = _by_channel(layer.weight, channels)
        self.transforms = _empty(len(weight), 2 * weight[0].size)
        lanes.transform_weights(0, len(weight), weight, lanes.workspace(), self.transforms)


def slide(turned: TransformedSamples, layer: nn.Linear) -> Tensor:
    """Return what a layer makes of windows."""
    weight, space, found = _by_channel(layer.weight, turned.channels), lanes.workspace(), _Found(turned, layer)

    def work(begin: int, end: int) -> None:
        lanes.correlate(begin, end, weight, turned.by_frequency, space, found.transforms)
        found.finish(begin, end)

    share_out(work, len(weight), ROWS)
    return found.values


def slide_beside(turned: TransformedSamples, frozen: TransformedLayer, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return what a frozen layer makes of windows, and another one of the same shape."""
    weight, space = _by_channel(layer.weight, turned.channels), lanes.workspace()
    own, others = _Found(turned, frozen.layer), _Found(turned, layer)

    def work(begin: int, end: int) -> None:
        lanes.correlate_both(
            begin, end, frozen.transforms, weight, turned.by_frequency, space, own.transforms, others.transforms
        )
        own.finish(begin, end)
        others.finish(begin, end)

    share_out(work, len(weight), ROWS)
    return own.values, others.values


class _Found:
    """What a layer makes of windows, on the way."""

    def __init__(self, turned: TransformedSamples, layer: nn.Linear) -> None:
        windows = turned.tiles * lanes.BLOCKS
        self._bias: Floats = layer.bias.detach().numpy()
        self._all = _empty(windows, len(layer.weight))
        self.transforms = _empty(len(layer.weight), 2 * windows)
        self.values = torch.from_numpy(self._all)[: turned.windows]

    def finish(self, begin: int, end: int) -> None:
        """Turn the transforms of some rows into values."""
        lanes.values_of(begin, end, self.transforms, self._bias, lanes.workspace(), self._all)


class SlidingLayer:
    """A layer that learns as :class:`cgsa.engines.first_layer.ExactLayer` does, within rounding.

    Parameters
    ----------
    layer
        The layer, on a CPU.
    """

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer
        self._slopes: tuple[TransformedSamples, Tensor] | None = None

    @torch.no_grad()
    def forward(self, sight: BatchView) -> Tensor:
        """Return the layer's values."""
        if sight.turned is None:
            return linear(sight.inputs, self.layer.weight, self.layer.bias)
        return slide(sight.turned, self.layer)

    @torch.no_grad()
    def backward(self, sight: BatchView, gradient: Tensor, rows: Tensor | None) -> None:
        """Keep the gradient of its values; that of the weights is found when they learn."""
        self.layer.weight.grad, self._slopes = None, None
        if sight.turned is None:
            self.layer.weight.grad = gradient.T @ (sight.inputs if rows is None else sight.inputs[rows])
        elif rows is None:
            self._slopes = sight.turned, gradient
        else:
            whole = gradient.new_zeros(len(sight), gradient.shape[1])
            self._slopes = sight.turned, whole.index_copy_(0, rows, gradient)

    @torch.no_grad()
    def learn(self, adam: Adam) -> None:
        """Find the gradient of the weights and take Adam's step with it, in one pass."""
        if self._slopes is None:
            return
        (turned, gradient), self._slopes = self._slopes, None
        weight, group = self.layer.weight, adam.param_groups[0]
        state = adam.state[weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["step"] += 1
        taken, (first, second) = float(state["step"]), group["betas"]
        rate, correction = group["lr"] / (1 - first**taken), (1 - second**taken) ** -0.5
        settings = np.array([1 - first, second, 1 - second, rate, correction, group["eps"]], dtype=np.float32)
        slopes, space, given = (
            _empty(len(weight), turned.tiles, lanes.BLOCKS, 2),
            lanes.workspace(),
            gradient.contiguous(),
        )
        w, mean, square = (
            _by_channel(each, turned.channels) for each in (weight, state["exp_avg"], state["exp_avg_sq"])
        )

        def work(begin: int, end: int) -> None:
            lanes.transform_slopes(begin, end, given.numpy(), space, slopes)
            lanes.learn(begin, end, w, mean, square, turned.by_channel, slopes, settings, space)

        share_out(work, len(weight), ROWS)


def _by_channel(weight: Tensor, channels: int) -> Floats:
    """Return the same memory, (rows, channels, length)."""
    rows: Floats = weight.detach().view(-1, channels, lanes.LENGTH).numpy()
    return rows


def _empty(*shape: int) -> Floats:
    return np.empty(shape, dtype=np.float32)
