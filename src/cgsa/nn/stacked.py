"""Networks of one shape beside each other: what one of them multiplies, all multiply at once.

One network is small work for a GPU. Many of them, each with weights and Adam's
moments of its own, are stacked: every product becomes a batch of products, and
one pass over memory takes everybody's optimiser step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from cgsa.nn.dropout import Dropout
from cgsa.nn.graph import Aside
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.stacked_adam import StackedAdam

ALIGNED = 32
"""Every weight begins at a multiple of so many numbers: products of others are slow."""


@dataclass(frozen=True)
class _Layer:
    """Where a linear layer's numbers stand in the row of a network."""

    weight: int
    bias: int
    outer: int
    inner: int

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights, (..., out, in), and biases, (..., out), of one row or of many."""
        weight = rows[..., self.weight : self.weight + self.outer * self.inner]
        return weight.view(*rows.shape[:-1], self.outer, self.inner), rows[..., self.bias : self.bias + self.outer]


class StackedNetworks:
    """F and G of several networks that start as copies of one, and learn each for itself.

    Parameters
    ----------
    source
        The network that all are copies of: linear layers and rectifiers; dropouts rest, as they do in use.
    count
        How many.
    lr
        Learning rate of Adam.
    gradient
        Memory for the gradients of as many networks; those that learn in turn may share it. None means their own.
    """

    def __init__(self, source: DiagnosisNet, count: int, lr: float, gradient: Tensor | None = None) -> None:
        self._source = [parameter.detach() for parameter in source.parameters()]
        laid_out = list(_lay_out(source))
        self._layers = [layer for layer, _ in laid_out]
        self._rectified = [rectified for _, rectified in laid_out]
        self.weights = self.rows(source, count)
        """All weights and biases of a network in one row."""
        self.adam = StackedAdam(self.weights, lr)
        self._gradient = torch.zeros_like(self.weights) if gradient is None else gradient[:count]
        self._aside = Aside(self.weights.device)
        for place in range(count):
            self.restart(place)

    @staticmethod
    def rows(source: DiagnosisNet, count: int) -> Tensor:
        """Return memory for all weights of so many networks, (networks, numbers)."""
        *_, (last, _) = _lay_out(source)
        return torch.zeros(count, _next_border(last.bias + last.outer), device=next(source.parameters()).device)

    def restart(self, place: int) -> None:
        """Make one network a copy of the source again, as if it had never learnt."""
        for own, source in zip(self.parameters(place), self._source, strict=True):
            own.copy_(source)
        self.adam.restart(place)

    def parameters(self, place: int) -> list[Tensor]:
        """Return the weights of one network, as its own parameters are ordered; they may be written to."""
        return self.views(self.weights[place])

    def views(self, row: Tensor) -> list[Tensor]:
        """Return the parts of a row, such as Adam's moments, as the parameters of a network are ordered."""
        return [part for layer in self._layers for part in layer.of(row)]

    def forward(self, inputs: Tensor, turned: Tensor | None = None) -> Tensor:
        """Return class scores of what F sees, (networks, windows, features), and keep what a backward pass needs.

        ``turned`` is the same as (networks, features, windows) in sixteen bits, where it is at hand. From it comes the
        gradient of the first layer, in which the rounding of single inputs averages out.
        """
        self._seen: list[Tensor] = []
        self._turned = turned
        x = inputs
        for layer, rectified in zip(self._layers, self._rectified, strict=True):
            self._seen.append(x)
            x = self._layer(x, *layer.of(self.weights), rectified=rectified)
        return x

    def learn(self, gradient: Tensor, learns: Tensor) -> None:
        """Take a step down the gradient of the last scores, in those networks for which ``learns`` is true."""
        g = gradient
        # Memory that is in use aside must not be given to anything else.
        used = [g]
        for place in reversed(range(len(self._layers))):
            layer, seen = self._layers[place], self._seen[place]
            weight_gradient, bias_gradient = layer.of(self._gradient)
            # The next layer's gradient waits for nothing but this one's; what this one learns can be found beside it.
            with self._aside.behind():
                _sum(g, bias_gradient)
                if place:
                    torch.bmm(g.transpose(1, 2), seen, out=weight_gradient)
            if place == 0:
                _sum_of_products(g, seen, self._turned, weight_gradient)
                break
            g = torch.bmm(g, layer.of(self.weights)[0])
            if self._rectified[place - 1]:
                g = torch.ops.aten.threshold_backward(g, seen, 0)
            used.append(g)
        self._aside.join()
        self._seen.clear()
        self.adam.step(self._gradient, learns)

    @staticmethod
    def _layer(x: Tensor, weight: Tensor, bias: Tensor, *, rectified: bool) -> Tensor:
        """Return what a layer of each network makes of its inputs."""
        if len(weight) == 1:
            # A single product adds its bias by itself.
            x = linear(x[0], weight[0], bias[0])[None]
        elif x.is_cuda:
            from cgsa.nn.kernels import add_bias  # noqa: PLC0415

            x = torch.bmm(x, weight.transpose(1, 2))
            add_bias(x, bias, rectify=rectified)
            return x
        else:
            x = torch.baddbmm(bias[:, None, :], x, weight.transpose(1, 2))
        return x.relu_() if rectified else x


def _sum(gradient: Tensor, out: Tensor) -> None:
    """Write the gradient of a layer's biases: the sum of its gradient over windows."""
    if gradient.is_cuda:
        from cgsa.nn.kernels import sum_windows  # noqa: PLC0415

        sum_windows(gradient, out)
    else:
        torch.sum(gradient, dim=1, out=out)


def _sum_of_products(gradient: Tensor, seen: Tensor, turned: Tensor | None, out: Tensor) -> None:
    """Write the gradient of a layer's weights: products of its gradient and its inputs, summed over windows."""
    if turned is None:
        torch.bmm(gradient.transpose(1, 2), seen, out=out)
    else:
        left = gradient.transpose(1, 2).to(turned.dtype, memory_format=torch.contiguous_format)
        torch.ops.aten.bmm.dtype_out(left, turned.transpose(1, 2), out.dtype, out=out)


def _lay_out(network: DiagnosisNet) -> Iterator[tuple[_Layer, bool]]:
    """Tell where each layer's numbers stand, one after the other, and whether it is rectified."""
    modules = [module for module in (*network.F, *network.G) if not isinstance(module, Dropout)]
    begin = 0
    for module, after in zip(modules, [*modules[1:], None], strict=True):
        if isinstance(module, nn.ReLU):
            continue
        if not isinstance(module, nn.Linear):
            raise TypeError(f"layer {type(module).__name__} in a stack; expected linear ones, rectifiers, dropouts")
        bias = _next_border(begin + module.weight.numel())
        yield _Layer(begin, bias, module.out_features, module.in_features), isinstance(after, nn.ReLU)
        begin = _next_border(bias + module.out_features)


def _next_border(place: int) -> int:
    return -(-place // ALIGNED) * ALIGNED
