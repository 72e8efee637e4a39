"""The first layer of a network over raw windows, which holds nine tenths of its weights, in its cheapest forms.

All take a :class:`Sight`, what a network sees of a batch. Windows of a stream
overlap, so most of what they hold need never be laid out window by window.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.data.windows import WindowSpec, overlapping, shared_samples
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.sliding import SlidingLinear
from cgsa.nn.volume import passed_forward

LARGE = 2**20
"""A layer of at least so many weights is worth being multiplied in eight bits."""
TOP = 127
"""The largest number of eight bits."""


class Sight:
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
        shared = shared_samples(x) if raw else None
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
    def eighths(self) -> tuple[Tensor, Tensor]:
        """The same in whole numbers of eight bits, and what they are multiplied by."""
        if self.samples is None:
            return in_eight_bits(self.inputs)
        numbers, scale = in_eight_bits(self.samples)
        return overlapping(numbers, self._x.shape[2], self.step).flatten(1), scale

    @cached_property
    def sixteenths(self) -> Tensor:
        """The same in sixteen bits."""
        if self.samples is None:
            return self.inputs.to(torch.bfloat16)
        return overlapping(self.samples.to(torch.bfloat16), self._x.shape[2], self.step).flatten(1)


def in_eight_bits(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return values as whole numbers up to 127, and the scale that gives them back."""
    low, high = torch.aminmax(values)
    scale = torch.maximum(-low, high).clamp(min=torch.finfo(values.dtype).tiny) / TOP
    return (values / scale).round_().to(torch.int8), scale


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
        raw = isinstance(network.frontend, RawFrontend) and network.reference is None
        # A GPU multiplies faster than it transforms.
        if raw and not self.layer.weight.is_cuda and SlidingLinear.pays(window.length, window.step):
            self._sliding = SlidingLinear(self.layer, network.frontend.window_shape[0], window.length, window.step)

    @torch.no_grad()
    def forward(self, sight: Sight) -> Tensor:
        """Return what the layer makes of windows, (windows, out)."""
        passed_forward(self.layer)
        if self._sliding is None or sight.samples is None or sight.step != self._sliding.step:
            return linear(sight.inputs, self.layer.weight, self.layer.bias)
        return self._sliding(sight.samples)


class LearningLayer(Protocol):
    """The first layer of a network that learns beside a frozen one that it was copied from."""

    def forward(self, sight: Sight, frozen: Tensor) -> Tensor:
        """Return what the layer makes of windows; ``frozen`` is what the frozen one makes of them."""

    def backward(self, sight: Sight, gradient: Tensor, rows: Tensor | None) -> None:
        """Find the gradient of its weights; that of its values is given for the windows in ``rows``, or for all."""

    def learn(self, adam: Adam) -> None:
        """Take what part of the optimiser's step is the layer's own."""

    def refresh(self) -> None:
        """Take notice of weights that somebody else has written."""


class ExactLayer:
    """In single precision, with the bits of autograd where all windows are learnt from."""

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer

    @torch.no_grad()
    def forward(self, sight: Sight, frozen: Tensor) -> Tensor:  # noqa: ARG002
        """Return the layer's values."""
        return linear(sight.inputs, self.layer.weight, self.layer.bias)

    @torch.no_grad()
    def backward(self, sight: Sight, gradient: Tensor, rows: Tensor | None) -> None:
        """Write the gradient of the weights."""
        self.layer.weight.grad = gradient.T @ (sight.inputs if rows is None else sight.inputs[rows])

    def learn(self, adam: Adam) -> None:
        """Leave everything to the optimiser."""

    def refresh(self) -> None:
        """Do nothing: the weights are read anew for every batch."""


def first_layer(network: DiagnosisNet) -> nn.Linear:
    """Return the first layer of F."""
    layer = next(iter(network.F))
    if not isinstance(layer, nn.Linear):
        raise TypeError(f"F begins with {type(layer).__name__}; expected a linear layer")
    return layer
