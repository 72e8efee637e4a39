"""A diagnosis network as a chain of layers, forward and backward, without a graph of operations.

Online, a network learns one step a batch, from some of its windows. Written
out, the backward pass knows that nobody asks for the gradient of the input, can
leave out the other windows, and lets the first layer be computed in other ways
(:mod:`cgsa.engines.first_layer`). In single precision, and with all windows, it gives
the bits of autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.engines.first_layer import BatchView, LearningLayer
from cgsa.nn.dropout import Dropout
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.volume import count_backward, count_forward

FEW = 0.75
"""Where fewer windows than this share are learnt from, taking them out costs less than passing over the others."""
WORTH_ROUNDING = 2**16
"""Weights of a layer that is multiplied faster in sixteen bits, the rounding included."""
EVEN = 64
"""Windows are taken out in multiples of this: odd numbers of rows are multiplied slowly."""


class LearningChain:
    """The layers of a network that learns, whose weights it reads and whose gradients it writes.

    Parameters
    ----------
    network
        F and G of linear layers and rectifiers; dropouts rest, as they do in use.
    first
        How its first layer is computed.
    skip
        Whether windows that are not learnt from are taken out before the backward pass. Their gradients are zero, but
        sums without them are taken in another order, and are no longer those of autograd to the last bit.
    sixteen_bits
        Whether the gradients of weights are multiplied in sixteen bits (bfloat16), but for the first layer. What is
        said of windows is not rounded, and what goes on to the layer before is not, either.
    """

    def __init__(
        self, network: DiagnosisNet, first: LearningLayer, *, skip: bool = False, sixteen_bits: bool = False
    ) -> None:
        self.first = first
        self.skip = skip
        self.sixteen_bits = sixteen_bits
        self.layers, self.rectified = layers_of(network)

    @torch.no_grad()
    def forward(self, sight: BatchView, first: Tensor | None = None) -> Tensor:
        """Return class scores, and keep what a backward pass needs.

        ``first`` is what the first layer makes of the windows, where that is known already.
        """
        self._sight = sight
        self._seen: list[Tensor] = []
        x = self.first.forward(sight) if first is None else first
        for place, (layer, rectified) in enumerate(zip(self.layers, self.rectified, strict=True)):
            count_forward(layer)
            if place:
                self._seen.append(x)
                x = linear(x, layer.weight, layer.bias)
            if rectified:
                x = x.relu_()
        return x

    def learn(self, adam: Adam, gradient: Tensor, learnt: Tensor) -> None:
        """Take one step down the gradient of the scores of the last forward pass.

        ``learnt`` tells which windows are learnt from; the gradient is zero for the others.
        """
        self.backward(gradient, learnt)
        adam.step()
        self.first.learn(adam)

    @torch.no_grad()
    def backward(self, gradient: Tensor, learnt: Tensor) -> None:
        """Write the gradients of all weights."""
        rows = rows_to_learn(learnt) if self.skip else None
        g = gradient if rows is None else gradient[rows]
        for place in reversed(range(len(self.layers))):
            layer = self.layers[place]
            count_backward(layer)
            layer.bias.grad = g.sum(dim=0)
            if place == 0:
                self.first.backward(self._sight, g, rows)
                return
            seen = self._seen[place - 1] if rows is None else self._seen[place - 1][rows]
            if self.sixteen_bits and layer.weight.numel() >= WORTH_ROUNDING:
                rounded = g.to(torch.bfloat16)
                layer.weight.grad = (rounded.T @ seen.to(torch.bfloat16)).float()
            else:
                layer.weight.grad = g.T @ seen
            g = g @ layer.weight
            if self.rectified[place - 1]:
                g = torch.ops.aten.threshold_backward(g, seen, 0)


def layers_of(network: DiagnosisNet) -> tuple[list[nn.Linear], list[bool]]:
    """Return the linear layers of F and G, and whether each is rectified; dropouts rest, as they do in use."""
    layers: list[nn.Linear] = []
    rectified: list[bool] = []
    for module in (*network.F, *network.G):
        if isinstance(module, nn.Linear):
            layers.append(module)
            rectified.append(False)
        elif isinstance(module, nn.ReLU):
            rectified[-1] = True
        elif not isinstance(module, Dropout):
            raise TypeError(f"layer {type(module).__name__} in a chain; expected linear ones, rectifiers, dropouts")
    return layers, rectified


def rows_to_learn(learnt: Tensor) -> Tensor | None:
    """Return the places of all windows that are learnt from, filled up with others; none where all might as well."""
    wanted = -(-int(learnt.sum()) // EVEN) * EVEN
    if wanted > FEW * len(learnt):
        return None
    return learnt.int().argsort(descending=True, stable=True)[:wanted]
