"""The first layer of a network over raw windows, which holds nine tenths of its weights, in its cheapest forms.

All take a :class:`BatchView`, what a network sees of a batch. Windows of a stream
overlap, so most of what they hold need never be laid out window by window.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.data.windows import WindowSpec, underlying_samples
from cgsa.engines.sliding import SlidingLinear
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.volume import count_forward

if TYPE_CHECKING:
    from cgsa.engines.sliding_layer import TransformedLayer, TransformedSamples

PAPER = WindowSpec()
"""Windows of 1024 samples at step 16, which have transforms of their own."""
LARGE = 2**20
"""A layer of at least so many weights is worth being transformed."""
ROWS = 32
"""Rows of weights are transformed in multiples of so many, which threads share out."""
LEAST_WINDOWS = 64
"""Fewer windows are multiplied as they are: transforming the weights would cost more."""


class BatchView:
    """What a network sees of a batch of raw windows.

    Parameters
    ----------
    network
        Whose front-end, and reference, are looked through.
    x
        Raw windows, (windows, channels, length).
    """

    def __init__(self, network: DiagnosisNet, x: Tensor) -> None:
        self._network, self._x = network, x
        raw = isinstance(network.frontend, RawFrontend) and network.reference is None
        shared = underlying_samples(x) if raw else None
        self.samples = None if shared is None else network.frontend.scale(shared[0])
        """Scaled samples that the windows share, (channels, samples); none where they share none."""
        self.step = 0 if shared is None else shared[1]

    def __len__(self) -> int:
        return len(self._x)

    @cached_property
    def inputs(self) -> Tensor:
        """What F sees, window by window."""
        return self._network.inputs(self._x)

    @cached_property
    def turned(self) -> TransformedSamples | None:
        """Transforms of the samples that windows at the paper's step share; none where they do not, or are too few."""
        if self.samples is None or self.step != PAPER.step or len(self) < LEAST_WINDOWS:
            return None
        # Its compiler takes a second to load, which nobody else should wait for.
        from cgsa.engines.sliding_layer import TransformedSamples  # noqa: PLC0415

        return TransformedSamples.of(self.samples, len(self))


def slides(network: DiagnosisNet, window: WindowSpec) -> bool:
    """Return whether a network has a large first layer on a CPU, over windows that :class:`TransformedSamples` takes."""
    weight = first_layer(network).weight
    return (
        isinstance(network.frontend, RawFrontend)
        and network.reference is None
        and window == PAPER
        and weight.device.type == "cpu"
        and weight.numel() >= LARGE
        and len(weight) % ROWS == 0
    )


class FrozenLayer:
    """The first layer of a network that will not change.

    Parameters
    ----------
    network
        The network.
    window
        How windows of its streams are cut.
    """

    def __init__(self, network: DiagnosisNet, window: WindowSpec) -> None:
        self.layer = first_layer(network)
        self._sliding: SlidingLinear | None = None
        self._channels = network.frontend.window_shape[0]
        self._slides = slides(network, window)
        raw = isinstance(network.frontend, RawFrontend) and network.reference is None
        # A GPU multiplies faster than it transforms.
        if (
            raw
            and not self._slides
            and not self.layer.weight.is_cuda
            and SlidingLinear.pays(window.length, window.step)
        ):
            self._sliding = SlidingLinear(self.layer, self._channels, window.length, window.step)

    @torch.no_grad()
    def forward(self, sight: BatchView) -> Tensor:
        """Return what the layer makes of windows, (windows, out)."""
        count_forward(self.layer)
        if self._sliding is None or sight.samples is None or sight.step != self._sliding.step:
            return linear(sight.inputs, self.layer.weight, self.layer.bias)
        return self._sliding(sight.samples)

    @torch.no_grad()
    def forward_beside(self, learning: LearningLayer, sight: BatchView) -> tuple[Tensor, Tensor | None]:
        """Return the layer's values, and those of one that learns where they can be found in the same pass."""
        if not self._slides or sight.turned is None:
            return self.forward(sight), None
        from cgsa.engines.sliding_layer import slide_beside  # noqa: PLC0415, as above

        count_forward(self.layer)
        return slide_beside(sight.turned, self._turned, learning.layer)

    @cached_property
    def _turned(self) -> TransformedLayer:
        from cgsa.engines.sliding_layer import TransformedLayer  # noqa: PLC0415, as above

        return TransformedLayer(self.layer, self._channels)


class LearningLayer(Protocol):
    """The first layer of a network that learns beside a frozen one that it was copied from."""

    layer: nn.Linear

    def forward(self, sight: BatchView) -> Tensor:
        """Return what the layer makes of windows."""

    def backward(self, sight: BatchView, gradient: Tensor, rows: Tensor | None) -> None:
        """Find the gradient of its weights; that of its values is given for the windows in ``rows``, or for all."""

    def learn(self, adam: Adam) -> None:
        """Take what part of the optimiser's step is the layer's own."""


class ExactLayer:
    """In single precision, with the bits of autograd where all windows are learnt from."""

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer

    @torch.no_grad()
    def forward(self, sight: BatchView) -> Tensor:
        """Return the layer's values."""
        return linear(sight.inputs, self.layer.weight, self.layer.bias)

    @torch.no_grad()
    def backward(self, sight: BatchView, gradient: Tensor, rows: Tensor | None) -> None:
        """Write the gradient of the weights."""
        self.layer.weight.grad = gradient.T @ (sight.inputs if rows is None else sight.inputs[rows])

    def learn(self, adam: Adam) -> None:
        """Leave everything to the optimiser."""


def first_layer(network: DiagnosisNet) -> nn.Linear:
    """Return the first layer of F."""
    layer = next(iter(network.F))
    if not isinstance(layer, nn.Linear):
        raise TypeError(f"F begins with {type(layer).__name__}; expected a linear layer")
    return layer
