"""The first layer over overlapping windows, forward and backward, for a fraction of its products.

Its outputs for all windows of a batch, and the gradient of its weights, are correlations along the samples that the
windows share, computed through Fourier transforms (:mod:`cgsa.engines.simd_fft`). The weights of the frozen layer are
transformed once. Those of the student change with every batch and are transformed row by row: a row, its transform and
its gradient fit into a cache, and Adam's step is taken while they are there. Sums are taken in another order than in
matrix products and are equally accurate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.optim import Adam

from cgsa.engines import simd_correlation as correlation
from cgsa.engines.first_layer import PAPER_WINDOWS, ROW_MULTIPLE, BatchInputs, FirstLayer
from cgsa.engines.simd_fft import BLOCKS, LENGTH, TILES, Floats, transform_samples, transform_weights, twiddle_workspace
from cgsa.engines.simd_registers import LANES
from cgsa.engines.threads import share_out
from cgsa.nn.volume import count_forward

MIN_WINDOWS = 64
"""Fewer windows are multiplied as matrices: transforming the weights would cost more."""


@dataclass(frozen=True, eq=False)
class TransformedSamples:
    """Transforms of the samples that the windows of a batch share."""

    windows: int
    tiles: int
    """Groups of 64 windows."""
    by_frequency: Floats
    by_channel: Floats

    @classmethod
    def of(cls, samples: Tensor, windows: int) -> TransformedSamples:
        """Transform the samples, (channels, samples), of this many windows at step 16."""
        channels = len(samples)
        tiles = -(-windows // (BLOCKS * TILES)) * TILES
        padded = pad(samples, (0, (tiles + 1) * LENGTH - samples.shape[1]))
        by_frequency = _empty(tiles // TILES, BLOCKS, channels, TILES, 2, LANES)
        by_channel = _empty(2, tiles, channels, LENGTH)
        transform_samples(padded.numpy(), twiddle_workspace(), by_frequency, by_channel)
        return cls(windows, tiles, by_frequency.reshape(-1), by_channel)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.by_channel.shape[2])


class TransformedLayer:
    """A frozen layer whose weights are transformed once; the transforms take twice their memory."""

    def __init__(self, layer: nn.Linear, channels: int) -> None:
        self.layer = layer
        weight = _by_channel(layer.weight, channels)
        self.transforms = _empty(len(weight), 2 * weight[0].size)
        transform_weights(0, len(weight), weight, twiddle_workspace(), self.transforms)


def slide(samples: TransformedSamples, layer: nn.Linear) -> Tensor:
    """Return the outputs of a layer for all windows, (windows, out)."""
    weight, space = _by_channel(layer.weight, samples.channels), twiddle_workspace()
    found = _LayerOutput(samples, layer)

    def work(begin: int, end: int) -> None:
        correlation.correlate(begin, end, weight, samples.by_frequency, space, found.transforms)
        found.invert(begin, end)

    share_out(work, len(weight), ROW_MULTIPLE)
    return found.values


def slide_both(samples: TransformedSamples, layer: nn.Linear, frozen: TransformedLayer) -> tuple[Tensor, Tensor]:
    """Return the outputs of a layer and of a frozen one of the same shape."""
    weight, space = _by_channel(layer.weight, samples.channels), twiddle_workspace()
    own, source = _LayerOutput(samples, layer), _LayerOutput(samples, frozen.layer)

    def work(begin: int, end: int) -> None:
        correlation.correlate_both(
            begin, end, frozen.transforms, weight, samples.by_frequency, space, source.transforms, own.transforms
        )
        source.invert(begin, end)
        own.invert(begin, end)

    share_out(work, len(weight), ROW_MULTIPLE)
    return own.values, source.values


class _LayerOutput:
    """Outputs of a layer: their transforms, then their values."""

    def __init__(self, samples: TransformedSamples, layer: nn.Linear) -> None:
        windows = samples.tiles * BLOCKS
        self._bias: Floats = layer.bias.detach().numpy()
        self._all = _empty(windows, len(layer.weight))
        self.transforms = _empty(len(layer.weight), 2 * windows)
        self.values = torch.from_numpy(self._all)[: samples.windows]

    def invert(self, begin: int, end: int) -> None:
        correlation.invert_outputs(begin, end, self.transforms, self._bias, twiddle_workspace(), self._all)


class SlidingFirstLayer(FirstLayer):
    """A first layer on a CPU that gives the same as its base within rounding; small batches are left to the base."""

    def __init__(self, layer: nn.Linear, frozen: nn.Linear) -> None:
        super().__init__(layer, frozen)
        self._last: tuple[BatchInputs, TransformedSamples | None] | None = None
        self._gradient: tuple[TransformedSamples, Tensor] | None = None

    @cached_property
    def _transformed(self) -> TransformedLayer:
        return TransformedLayer(self.frozen, self.frozen.in_features // LENGTH)

    def samples_of(self, batch: BatchInputs) -> TransformedSamples | None:
        """Return the transformed samples of a batch; None if its windows share none, or are too few."""
        if self._last is None or self._last[0] is not batch:
            samples, slides = batch.samples, batch.step == PAPER_WINDOWS.step and len(batch) >= MIN_WINDOWS
            self._last = batch, TransformedSamples.of(samples, len(batch)) if slides and samples is not None else None
        return self._last[1]

    @torch.no_grad()
    def forward(self, batch: BatchInputs) -> Tensor:
        """Return the outputs of the student's layer."""
        samples = self.samples_of(batch)
        return super().forward(batch) if samples is None else slide(samples, self.layer)

    @torch.no_grad()
    def forward_both(self, batch: BatchInputs) -> tuple[Tensor, Tensor]:
        """Return the outputs of the student's and of the frozen layer, in one pass over the samples."""
        samples = self.samples_of(batch)
        if samples is None:
            return super().forward_both(batch)
        count_forward(self.frozen)
        return slide_both(samples, self.layer, self._transformed)

    @torch.no_grad()
    def backward(self, batch: BatchInputs, gradient: Tensor, rows: Tensor | None) -> None:
        """Keep the gradient of the outputs; :meth:`learn` finds that of the weights."""
        self.layer.weight.grad, self._gradient = None, None
        samples = self.samples_of(batch)
        if samples is None:
            super().backward(batch, gradient, rows)
        elif rows is None:
            self._gradient = samples, gradient
        else:
            whole = gradient.new_zeros(len(batch), gradient.shape[1])
            self._gradient = samples, whole.index_copy_(0, rows, gradient)

    @torch.no_grad()
    def learn(self, adam: Adam) -> None:
        """Find the gradient of the weights and take Adam's step with it, in one pass."""
        if self._gradient is None:
            return
        (samples, gradient), self._gradient = self._gradient, None
        weight, group = self.layer.weight, adam.param_groups[0]
        state = adam.state[weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["step"] += 1
        taken, (first, second) = float(state["step"]), group["betas"]
        rate, correction = group["lr"] / (1 - first**taken), (1 - second**taken) ** -0.5
        settings = np.array([1 - first, second, 1 - second, rate, correction, group["eps"]], dtype=np.float32)
        transformed, space = _empty(len(weight), samples.tiles, BLOCKS, 2), twiddle_workspace()
        given = gradient.contiguous().numpy()
        w, mean, square = (
            _by_channel(each, samples.channels) for each in (weight, state["exp_avg"], state["exp_avg_sq"])
        )

        def work(begin: int, end: int) -> None:
            correlation.transform_gradients(begin, end, given, space, transformed)
            correlation.adam_step(begin, end, w, mean, square, samples.by_channel, transformed, settings, space)

        share_out(work, len(weight), ROW_MULTIPLE)


def _by_channel(weight: Tensor, channels: int) -> Floats:
    """Return the same memory, (rows, channels, length)."""
    rows: Floats = weight.detach().view(-1, channels, LENGTH).numpy()
    return rows


def _empty(*shape: int) -> Floats:
    return np.empty(shape, dtype=np.float32)
