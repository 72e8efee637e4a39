"""Networks of one shape beside each other: what one of them multiplies, all multiply at once.

One network is small work for a GPU. Many of them, each with weights and Adam's
moments of its own, are stacked: every product becomes a batch of products, and
one pass over memory takes everybody's optimiser step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.engines.chain import layers_of
from cgsa.engines.graph import SideStream
from cgsa.engines.stacked_adam import StackedAdam
from cgsa.nn.mlp import DiagnosisNet

ALIGNED = 32
"""Every weight begins at a multiple of so many numbers: products of others are slow."""


@dataclass(frozen=True)
class LayerPlace:
    """Where a linear layer's numbers stand in the row of a network."""

    weight: int
    bias: int
    outer: int
    inner: int

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights, (..., out, in), and biases, (..., out), of one row or of many."""
        weight = rows[..., self.weight : self.weight + self.outer * self.inner]
        return weight.view(*rows.shape[:-1], self.outer, self.inner), rows[..., self.bias : self.bias + self.outer]


def lay_out_layers(layers: Iterable[nn.Linear]) -> list[LayerPlace]:
    """Tell where each layer's numbers stand in a row, one after the other."""
    places, begin = [], 0
    for layer in layers:
        bias = _next_border(begin + layer.weight.numel())
        places.append(LayerPlace(begin, bias, layer.out_features, layer.in_features))
        begin = _next_border(bias + layer.out_features)
    return places


def rows_for(places: Sequence[LayerPlace], count: int, device: torch.device) -> Tensor:
    """Return memory for all numbers of so many networks, (networks, numbers)."""
    return torch.zeros(count, _next_border(places[-1].bias + places[-1].outer), device=device)


def views_of(places: Iterable[LayerPlace], row: Tensor) -> list[Tensor]:
    """Return the parts of a row as the parameters of a network are ordered: weight and bias of every layer."""
    return [part for place in places for part in place.of(row)]


def adopt(
    parameters: Iterable[nn.Parameter], adam: Adam, places: Sequence[LayerPlace], stacked: StackedAdam, row: int
) -> None:
    """Let parameters, and what their optimiser remembers of them, become views of a row that holds the same."""
    states = (views_of(places, rows[row]) for rows in (stacked.weights, stacked.means, stacked.squares))
    for parameter, weight, mean, square in zip(parameters, *states, strict=True):
        weight.copy_(parameter.detach())
        parameter.data = weight
        before = adam.state[parameter]
        if before:
            mean.copy_(before["exp_avg"])
            square.copy_(before["exp_avg_sq"])
            stacked.steps[row] = before["step"]
        adam.state[parameter] = {"step": stacked.steps[row], "exp_avg": mean, "exp_avg_sq": square}


def through_layer(x: Tensor, weight: Tensor, bias: Tensor, *, rectified: bool) -> Tensor:
    """Return what a layer of each network makes of its inputs, (networks, windows, in)."""
    if len(weight) == 1:
        # A single product adds its bias by itself.
        x = linear(x[0], weight[0], bias[0])[None]
    elif x.is_cuda:
        from cgsa.engines.kernels import add_bias  # noqa: PLC0415

        x = torch.bmm(x, weight.transpose(1, 2))
        add_bias(x, bias, rectify=rectified)
        return x
    else:
        x = torch.baddbmm(bias[:, None, :], x, weight.transpose(1, 2))
    return x.relu_() if rectified else x


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
        layers, self._rectified = layers_of(source)
        self._layers = lay_out_layers(layers)
        self._tap = len([module for module in source.F if isinstance(module, nn.Linear)])
        self.weights = self.rows(source, count)
        """All weights and biases of a network in one row."""
        self.adam = StackedAdam(self.weights, lr)
        self._gradient = torch.zeros_like(self.weights) if gradient is None else gradient[:count]
        self._aside = SideStream(self.weights.device)
        for place in range(count):
            self.restart(place)

    @staticmethod
    def rows(source: DiagnosisNet, count: int) -> Tensor:
        """Return memory for all weights of so many networks, (networks, numbers)."""
        return rows_for(lay_out_layers(layers_of(source)[0]), count, next(source.parameters()).device)

    def adopt(self, place: int, network: nn.Module, adam: Adam) -> None:
        """Take over a network of the same shape, and what its optimiser remembers; from now on both are views."""
        adopt(network.parameters(), adam, self._layers, self.adam, place)

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
        return views_of(self._layers, row)

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
            x = through_layer(x, *layer.of(self.weights), rectified=rectified)
        return x

    @property
    def features(self) -> Tensor:
        """What G saw in the last forward pass, (networks, windows, tap); F(x), if that is not rectified."""
        return self._seen[self._tap]

    @property
    def tap_is_rectified(self) -> bool:
        """Whether G begins with a rectifier."""
        return self._rectified[self._tap - 1]

    def learn(self, gradient: Tensor, learns: Tensor) -> None:
        """Take a step down the gradient of the last scores, in those networks for which ``learns`` is true."""
        self.adam.step(self.backward(gradient), learns)

    def backward(self, gradient: Tensor, at_features: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return the gradients of all weights, in rows like theirs, from that of the last scores.

        ``at_features`` is given the gradient of the features, and returns another one to go on with.
        """
        g = gradient
        # Memory that is in use aside must not be given to anything else.
        used = [g]
        for place in reversed(range(len(self._layers))):
            layer, seen = self._layers[place], self._seen[place]
            weight_gradient, bias_gradient = layer.of(self._gradient)
            # The next layer's gradient waits for nothing but this one's; what this one learns can be found beside it.
            with self._aside.behind():
                sum_windows(g, bias_gradient)
                if place:
                    torch.bmm(g.transpose(1, 2), seen, out=weight_gradient)
            if place == 0:
                _sum_of_products(g, seen, self._turned, weight_gradient)
                break
            g = torch.bmm(g, layer.of(self.weights)[0])
            if self._rectified[place - 1]:
                g = torch.ops.aten.threshold_backward(g, seen, 0)
            if place == self._tap and at_features is not None:
                g = at_features(g)
            used.append(g)
        self._aside.join()
        self._seen.clear()
        return self._gradient


def sum_windows(gradient: Tensor, out: Tensor) -> None:
    """Write the gradient of a layer's biases: the sum of its gradient over windows."""
    if gradient.is_cuda:
        from cgsa.engines import kernels  # noqa: PLC0415

        kernels.sum_windows(gradient, out)
    else:
        torch.sum(gradient, dim=1, out=out)


def _sum_of_products(gradient: Tensor, seen: Tensor, turned: Tensor | None, out: Tensor) -> None:
    """Write the gradient of a layer's weights: products of its gradient and its inputs, summed over windows."""
    if turned is None:
        torch.bmm(gradient.transpose(1, 2), seen, out=out)
    else:
        left = gradient.transpose(1, 2).to(turned.dtype, memory_format=torch.contiguous_format)
        if turned.dtype == out.dtype:
            torch.bmm(left, turned.transpose(1, 2), out=out)
        else:
            torch.ops.aten.bmm.dtype_out(left, turned.transpose(1, 2), out.dtype, out=out)


def _next_border(place: int) -> int:
    return -(-place // ALIGNED) * ALIGNED
