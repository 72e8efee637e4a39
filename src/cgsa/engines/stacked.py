"""A stack of networks of one shape, whose products are computed in batches.

One network is little work for a GPU. In a stack of many, each with its own weights and Adam moments, every product
becomes a batch of products, and one pass over memory takes the optimiser step of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim import Adam

from cgsa.engines.graph import SideStream, has_kernels
from cgsa.engines.layer_chain import layers_of
from cgsa.engines.stacked_adam import StackedAdam
from cgsa.nn.frontends import Frontend
from cgsa.nn.mlp import DiagnosisNet

if has_kernels():
    from cgsa.engines import layer_kernels

ALIGNMENT = 32
"""Every weight begins at a multiple of this many numbers: products of others are slow."""


@dataclass(frozen=True)
class LayerPlace:
    """Position of the weights and biases of a linear layer in the row of a network."""

    weight: int
    bias: int
    outer: int
    inner: int

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights, (..., out, in), and biases, (..., out), of one row or of many."""
        weight = rows[..., self.weight : self.weight + self.outer * self.inner]
        return weight.view(*rows.shape[:-1], self.outer, self.inner), rows[..., self.bias : self.bias + self.outer]


def lay_out_layers(layers: Iterable[nn.Linear]) -> list[LayerPlace]:
    """Return the position of each layer in a row, one after the other."""
    places, begin = [], 0
    for layer in layers:
        bias = _aligned(begin + layer.weight.numel())
        places.append(LayerPlace(begin, bias, layer.out_features, layer.in_features))
        begin = _aligned(bias + layer.out_features)
    return places


def rows_for(places: Sequence[LayerPlace], count: int, device: torch.device) -> Tensor:
    """Return memory for all weights of this many networks, (networks, numbers)."""
    return torch.zeros(count, _aligned(places[-1].bias + places[-1].outer), device=device)


def views_of(places: Iterable[LayerPlace], row: Tensor) -> list[Tensor]:
    """Return the parts of a row in the order of a network's parameters: weight and bias of every layer."""
    return [part for place in places for part in place.of(row)]


def move_into_row(
    parameters: Iterable[nn.Parameter], adam: Adam, places: Sequence[LayerPlace], stacked: StackedAdam, row: int
) -> None:
    """Move parameters and their Adam state into a row of the stack; they become views of it."""
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


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor, *, rectified: bool) -> Tensor:
    """Return the outputs of one layer of each network, from its inputs, (networks, windows, in)."""
    if len(weight) == 1:
        # A single product adds its bias itself.
        x = linear(x[0], weight[0], bias[0])[None]
    elif x.is_cuda:
        x = torch.bmm(x, weight.transpose(1, 2))
        layer_kernels.launch_add_bias(x, bias, rectify=rectified)
        return x
    else:
        x = torch.baddbmm(bias[:, None, :], x, weight.transpose(1, 2))
    return x.relu_() if rectified else x


class StackedNetworks:
    """F and G of several networks that start as copies of one and learn independently.

    Parameters
    ----------
    source
        The network to copy: linear layers and ReLUs; dropout is inactive, as in evaluation.
    gradient
        Memory for the gradients of as many networks, which stacks that learn in turn may share; None allocates some.
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
        self._side_stream = SideStream(self.weights.device)
        for place in range(count):
            self.restart(place)

    @staticmethod
    def rows(source: DiagnosisNet, count: int) -> Tensor:
        """Return memory for all weights of this many copies of a network, (networks, numbers)."""
        return rows_for(lay_out_layers(layers_of(source)[0]), count, next(source.parameters()).device)

    def insert(self, place: int, network: nn.Module, adam: Adam) -> None:
        """Move a network of the same shape and its optimiser state into the stack; both become views of it."""
        move_into_row(network.parameters(), adam, self._layers, self.adam, place)

    def restart(self, place: int) -> None:
        """Make one network a copy of the source again, with a new optimiser."""
        for own, source in zip(self.parameters(place), self._source, strict=True):
            own.copy_(source)
        self.adam.restart(place)

    def parameters(self, place: int) -> list[Tensor]:
        """Return views of the weights of one network, in the order of its parameters."""
        return self.views(self.weights[place])

    def views(self, row: Tensor) -> list[Tensor]:
        """Return the parts of a row, such as Adam's moments, in the order of a network's parameters."""
        return views_of(self._layers, row)

    def forward(self, inputs: Tensor, transposed: Tensor | None = None) -> Tensor:
        """Return class scores from the inputs of F, (networks, windows, features), and keep them for the backward pass.

        ``transposed`` holds the same inputs as (networks, features, windows), in bfloat16 or float32, if available. The
        gradient of the first layer is computed from it; the rounding of single inputs averages out there.
        """
        self._inputs: list[Tensor] = []
        self._transposed = transposed
        x = inputs
        for layer, rectified in zip(self._layers, self._rectified, strict=True):
            self._inputs.append(x)
            x = stacked_linear(x, *layer.of(self.weights), rectified=rectified)
        return x

    @property
    def features(self) -> Tensor:
        """Inputs of G in the last forward pass, (networks, windows, tap): F(x), if no ReLU follows it."""
        return self._inputs[self._tap]

    def learn(self, gradient: Tensor, learns: Tensor) -> None:
        """Take a step down the gradient of the last scores, in those networks for which ``learns`` is true."""
        self.adam.step(self.backward(gradient), learns)

    def backward(self, gradient: Tensor, at_features: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return the gradients of all weights, in rows like theirs, from that of the last scores.

        ``at_features`` receives the gradient of the features and returns the one to continue with.
        """
        g = gradient
        # Memory in use on the side stream must not be reused before the join.
        used = [g]
        for place in reversed(range(len(self._layers))):
            layer, inputs = self._layers[place], self._inputs[place]
            weight_gradient, bias_gradient = layer.of(self._gradient)
            # The layer before needs only g; meanwhile the side stream finds the gradients of this layer's weights.
            self._side_stream.fork()
            with self._side_stream.work():
                write_bias_gradient(g, bias_gradient)
                if place:
                    torch.bmm(g.transpose(1, 2), inputs, out=weight_gradient)
            if place == 0:
                _write_weight_gradient(g, inputs, self._transposed, weight_gradient)
                break
            g = torch.bmm(g, layer.of(self.weights)[0])
            if self._rectified[place - 1]:
                g = torch.ops.aten.threshold_backward(g, inputs, 0)
            if place == self._tap and at_features is not None:
                g = at_features(g)
            used.append(g)
        self._side_stream.join()
        self._inputs.clear()
        return self._gradient


def write_bias_gradient(gradient: Tensor, out: Tensor) -> None:
    """Write the gradient of a layer's biases: the sum of its gradient over windows."""
    if gradient.is_cuda:
        layer_kernels.launch_sum_over_windows(gradient, out)
    else:
        torch.sum(gradient, dim=1, out=out)


def _write_weight_gradient(gradient: Tensor, inputs: Tensor, transposed: Tensor | None, out: Tensor) -> None:
    """Write the gradient of a layer's weights: products of its gradient and its inputs, summed over windows."""
    if transposed is None:
        torch.bmm(gradient.transpose(1, 2), inputs, out=out)
    else:
        left = gradient.transpose(1, 2).to(transposed.dtype, memory_format=torch.contiguous_format)
        if transposed.dtype == out.dtype:
            torch.bmm(left, transposed.transpose(1, 2), out=out)
        else:
            torch.ops.aten.bmm.dtype_out(left, transposed.transpose(1, 2), out.dtype, out=out)


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def lay_out_raw_windows(frontend: Frontend, samples: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
    """Return all windows over samples of several machines, (machines, channels, samples).

    They are (machines, windows, points); on a GPU also transposed, (machines, points, windows) in bfloat16.
    """
    length = frontend.window_shape[1]
    if not samples.is_cuda:
        return frontend.scale(samples).unfold(2, length, step).transpose(1, 2).flatten(2), None
    starts = torch.arange(0, samples.shape[2] - length + 1, step, device=samples.device)[None]
    return lay_out_windows_at(frontend, samples, starts, transposed_dtype=torch.bfloat16)


def lay_out_windows_at(
    frontend: Frontend, samples: Tensor, starts: Tensor, *, transposed_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the windows that start at ``starts``, (machines, windows), and their transpose; only on a GPU."""
    return layer_kernels.launch_window_layout(
        samples,
        starts,
        frontend.get_buffer("mean"),
        frontend.get_buffer("deviation"),
        length=frontend.window_shape[1],
        transposed_dtype=transposed_dtype,
    )
