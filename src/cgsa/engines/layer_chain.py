"""A diagnosis network as a chain of layers, with its backward pass written out instead of recorded by autograd.

Online, the student takes one step per batch, on some of its windows. Written out, the backward pass skips the gradient
of the input, can leave out the other windows, and lets the first layer be computed in other ways
(:mod:`cgsa.engines.first_layer`). In single precision, and with all windows, the gradients are bit-identical to those
of autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.engines.first_layer import BatchInputs, FirstLayer
from cgsa.nn.dropout import Dropout
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.volume import count_backward, count_forward

GATHER_BELOW = 0.75
"""If a smaller share of the windows is accepted, gathering them costs less than multiplying the zeros of the others."""
MIN_BFLOAT16_WEIGHTS = 2**16
"""Layers with at least this many weights are multiplied faster in bfloat16, the rounding included."""
ROW_MULTIPLE = 64
"""Windows are gathered in multiples of this: odd numbers of rows are multiplied slowly."""


class LayerChain:
    """The layers of a network that learns; reads its weights and writes their gradients.

    Parameters
    ----------
    network
        F and G of linear layers and ReLUs; dropout is inactive, as in evaluation.
    first
        How its first layer is computed.
    mixed
        Whether gradients of weights are multiplied in bfloat16, except in the first layer, and only over accepted
        windows. The gradients of the other windows are zero, but sums without them are taken in another order, so they
        are no longer bit-identical to those of autograd. Probabilities, and gradients passed to the layer before, are
        not rounded.
    """

    def __init__(self, network: DiagnosisNet, first: FirstLayer, *, mixed: bool = False) -> None:
        self.first = first
        self.mixed = mixed
        self.layers, self.rectified = layers_of(network)

    @torch.no_grad()
    def forward(self, first: Tensor) -> Tensor:
        """Return class scores from the output of the first layer, and keep what the backward pass needs."""
        self._inputs: list[Tensor] = []
        x = first
        for place, (layer, rectified) in enumerate(zip(self.layers, self.rectified, strict=True)):
            count_forward(layer)
            if place:
                self._inputs.append(x)
                x = linear(x, layer.weight, layer.bias)
            if rectified:
                x = x.relu_()
        return x

    def learn(self, adam: Adam, batch: BatchInputs, gradient: Tensor, accepted: Tensor) -> None:
        """Take one step down the gradient of the scores of the last forward pass; it is zero for other windows."""
        self.backward(batch, gradient, accepted)
        adam.step()
        self.first.learn(adam)

    @torch.no_grad()
    def backward(self, batch: BatchInputs, gradient: Tensor, accepted: Tensor) -> None:
        """Write the gradients of all weights."""
        rows = rows_to_gather(accepted) if self.mixed else None
        g = gradient if rows is None else gradient[rows]
        for place in reversed(range(len(self.layers))):
            layer = self.layers[place]
            count_backward(layer)
            layer.bias.grad = g.sum(dim=0)
            if place == 0:
                self.first.backward(batch, g, rows)
                return
            inputs = self._inputs[place - 1] if rows is None else self._inputs[place - 1][rows]
            if self.mixed and layer.weight.numel() >= MIN_BFLOAT16_WEIGHTS:
                layer.weight.grad = (g.to(torch.bfloat16).T @ inputs.to(torch.bfloat16)).float()
            else:
                layer.weight.grad = g.T @ inputs
            g = g @ layer.weight
            if self.rectified[place - 1]:
                g = torch.ops.aten.threshold_backward(g, inputs, 0)


def layers_of(network: DiagnosisNet) -> tuple[list[nn.Linear], list[bool]]:
    """Return the linear layers of F and G, and whether each is followed by a ReLU; dropout is left out."""
    layers: list[nn.Linear] = []
    rectified: list[bool] = []
    for module in (*network.F, *network.G):
        if isinstance(module, nn.Linear):
            layers.append(module)
            rectified.append(False)
        elif isinstance(module, nn.ReLU):
            rectified[-1] = True
        elif not isinstance(module, Dropout):
            raise TypeError(f"layer {type(module).__name__} in a chain; expected linear layers, ReLU or dropout")
    return layers, rectified


def rows_to_gather(accepted: Tensor) -> Tensor | None:
    """Return the rows of all accepted windows, filled up with others; None if gathering them does not pay."""
    wanted = -(-int(accepted.sum()) // ROW_MULTIPLE) * ROW_MULTIPLE
    if wanted > GATHER_BELOW * len(accepted):
        return None
    return accepted.int().argsort(descending=True, stable=True)[:wanted]
