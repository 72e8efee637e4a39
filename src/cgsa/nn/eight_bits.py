"""A large layer that learns, multiplied in whole numbers of eight bits, and one pass over memory that makes them.

A layer of millions of weights does not fit into a cache, so what its update
costs is how often it is read. Written with tensor operations it is read and
written a dozen times; here a row is learnt and rounded while it is at hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.nn.first_layer import TOP, Sight

Floats = npt.NDArray[np.float32]
Eighths = npt.NDArray[np.int8]

_HALF = np.float32(128.5)


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product of whole numbers of eight bits, in 32 bits."""
    return torch._int_mm(left, right)  # noqa: SLF001, PyTorch has no other name for it


class MovedRows:
    """How far every row of a weight has moved from where it was, in eight bits with a scale each.

    Parameters
    ----------
    weight
        One of an optimiser's parameters, on a CPU.
    before
        Where it was.
    """

    def __init__(self, weight: Tensor, before: Tensor) -> None:
        self.weight, self.before = weight, before
        self.numbers = torch.empty(weight.shape, dtype=torch.int8)
        self.scales = torch.empty(len(weight))
        self.refresh()

    def refresh(self) -> None:
        """Look at the weight again, after somebody else has written to it."""
        _round_rows(*map(_array, (self.weight, self.before, self.numbers, self.scales)))

    def learn(self, adam: Adam, gradient: Tensor) -> None:
        """Take Adam's step, without weight decay, and look at the weight again, in one pass.

        The gradient comes in sixteen bits (bfloat16).
        """
        group, state = adam.param_groups[0], adam.state[self.weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(self.weight), torch.zeros_like(self.weight)
        state["step"] += 1
        taken, (first, second) = float(state["step"]), group["betas"]
        rate, correction = group["lr"] / (1 - first**taken), (1 - second**taken) ** -0.5
        _learn_rows(
            _array(self.weight),
            _array(self.before),
            _array(state["exp_avg"]),
            _array(state["exp_avg_sq"]),
            _array(gradient.view(torch.int16)),
            np.array([1 - first, second, 1 - second, rate, correction, group["eps"]], dtype=np.float32),
            _array(self.numbers),
            _array(self.scales),
        )


class EightBitLayer:
    """How far the layer has moved from the frozen one is multiplied in eight bits; weights stay in single precision.

    The frozen part is exact and already there. What is left is small, so an
    error of a hundredth of it is, too.

    Parameters
    ----------
    layer
        The layer that learns.
    frozen
        The layer as it was.
    """

    def __init__(self, layer: nn.Linear, frozen: nn.Linear) -> None:
        self.layer, self.frozen = layer, frozen
        self._moved = MovedRows(layer.weight, frozen.weight)

    @torch.no_grad()
    def forward(self, sight: Sight, frozen: Tensor) -> Tensor:
        """Return the layer's values."""
        windows, window_scale = sight.eighths
        added = product(windows, self._moved.numbers.T) * (window_scale * self._moved.scales)
        return frozen + added + (self.layer.bias - self.frozen.bias)

    @torch.no_grad()
    def backward(self, sight: Sight, gradient: Tensor, rows: Tensor | None) -> None:
        """Find the gradient of the weights in sixteen bits.

        Eight would not do: a few windows have large gradients, and beside them the many small ones would be lost.
        """
        windows = sight.sixteenths
        self._gradient = gradient.to(torch.bfloat16).T @ (windows if rows is None else windows[rows])

    @torch.no_grad()
    def learn(self, adam: Adam) -> None:
        """Take the step of the weights."""
        self._moved.learn(adam, self._gradient)

    def refresh(self) -> None:
        """Round the weights again."""
        self._moved.refresh()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return the same memory."""
    return tensor.detach().numpy()


@intrinsic
def _from_sixteen_bits(typing_context: Any, number: Any) -> Any:  # noqa: ARG001
    """Return the number whose upper half these bits are: that is what bfloat16 is."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = builder.zext(arguments[0], ir.IntType(32))
        return builder.bitcast(builder.shl(wide, ir.Constant(ir.IntType(32), 16)), ir.FloatType())

    return types.float32(types.int16), build


@njit(inline="always", error_model="numpy")
def _round_row(weight: Floats, before: Floats, numbers: Eighths) -> np.float32:
    top = np.float32(1e-30)
    for place in range(len(weight)):
        moved = abs(weight[place] - before[place])
        top = max(top, moved)
    scale = top / np.float32(TOP)
    steps = np.float32(1) / scale
    for place in range(len(weight)):
        # To the nearest, for numbers that are positive; a cast cuts off what is behind the point.
        numbers[place] = np.int32((weight[place] - before[place]) * steps + _HALF) - 128
    return scale


@njit(parallel=True, fastmath=True, error_model="numpy", cache=True)
def _round_rows(weight: Floats, before: Floats, numbers: Eighths, scales: Floats) -> None:
    for row in prange(len(weight)):
        scales[row] = _round_row(weight[row], before[row], numbers[row])


@njit(parallel=True, fastmath=True, error_model="numpy", cache=True)
def _learn_rows(  # noqa: PLR0917, a compiled function takes arrays
    weight: Floats,
    before: Floats,
    mean: Floats,
    square: Floats,
    gradient: npt.NDArray[np.int16],
    settings: Floats,
    numbers: Eighths,
    scales: Floats,
) -> None:
    new_mean, old_square, new_square, rate, correction, least = settings
    for row in prange(len(weight)):
        w, m, s, g = weight[row], mean[row], square[row], gradient[row]
        for place in range(len(w)):
            slope: np.float32 = _from_sixteen_bits(g[place])  # type: ignore[call-arg]
            m[place] += (slope - m[place]) * new_mean
            s[place] = s[place] * old_square + slope * slope * new_square
            w[place] -= rate * m[place] / (np.sqrt(s[place]) * correction + least)
        scales[row] = _round_row(w, before[row], numbers[row])
