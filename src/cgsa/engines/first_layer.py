"""The first layer over raw windows, which holds nine tenths of the weights of the paper's network."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.data.windows import WindowSpec, underlying_samples
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.volume import count_forward

PAPER_WINDOWS = WindowSpec()
"""Windows of 1024 samples at step 16, for which :mod:`cgsa.engines.simd_fft` is written."""
MIN_WEIGHTS = 2**20
"""Transforms pay only for layers with at least this many weights."""
ROW_MULTIPLE = 32
"""Threads share out the rows of a layer in multiples of this."""


class BatchInputs:
    """What a network receives from a batch of raw windows, (windows, channels, length)."""

    def __init__(self, network: DiagnosisNet, x: Tensor) -> None:
        self._network, self._x = network, x
        shared = underlying_samples(x) if takes_raw_samples(network) else None
        self.samples = None if shared is None else network.frontend.scale(shared[0])
        """Scaled samples that overlapping windows share, (channels, samples); None if each window has its own."""
        self.step = 0 if shared is None else shared[1]

    def __len__(self) -> int:
        return len(self._x)

    @cached_property
    def windows(self) -> Tensor:
        """The inputs of F, window by window."""
        return self._network.inputs(self._x)


class FirstLayer:
    """The first layer of a student and of the source model it was copied from, as matrix products."""

    def __init__(self, layer: nn.Linear, frozen: nn.Linear) -> None:
        self.layer, self.frozen = layer, frozen

    @torch.no_grad()
    def forward(self, batch: BatchInputs) -> Tensor:
        """Return the outputs of the student's layer, (windows, out)."""
        return linear(batch.windows, self.layer.weight, self.layer.bias)

    @torch.no_grad()
    def forward_both(self, batch: BatchInputs) -> tuple[Tensor, Tensor]:
        """Return the outputs of the student's and of the frozen layer."""
        count_forward(self.frozen)
        return self.forward(batch), linear(batch.windows, self.frozen.weight, self.frozen.bias)

    @torch.no_grad()
    def backward(self, batch: BatchInputs, gradient: Tensor, rows: Tensor | None) -> None:
        """Find the gradient of the weights from that of the outputs of the windows in ``rows``, or of all."""
        self.layer.weight.grad = gradient.T @ (batch.windows if rows is None else batch.windows[rows])

    def learn(self, adam: Adam) -> None:
        """Take the part of the optimiser step that :meth:`backward` leaves to this layer; here there is none."""


def takes_raw_samples(network: DiagnosisNet) -> bool:
    """Return whether F receives scaled samples as they are."""
    return isinstance(network.frontend, RawFrontend) and network.reference is None


def can_slide(network: DiagnosisNet, window: WindowSpec) -> bool:
    """Return whether a network has a large first layer on a CPU, over the paper's windows of raw samples."""
    weight = first_layer(network).weight
    return (
        takes_raw_samples(network)
        and window == PAPER_WINDOWS
        and weight.device.type == "cpu"
        and weight.numel() >= MIN_WEIGHTS
        and len(weight) % ROW_MULTIPLE == 0
    )


def first_layer(network: DiagnosisNet) -> nn.Linear:
    """Return the first layer of F."""
    layer = next(iter(network.F))
    if not isinstance(layer, nn.Linear):
        raise TypeError(f"F begins with {type(layer).__name__}; expected a linear layer")
    return layer
