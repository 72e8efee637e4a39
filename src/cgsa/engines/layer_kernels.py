"""GPU kernels of layers and optimiser: one pass over memory where tensor operations would take several.

Imported only where tensors are on a GPU: the compiler is installed with PyTorch for CUDA.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

compiled: Callable[[Callable[..., None]], Any] = triton.jit
"""Makes a kernel of a function; triton's own decorator has no type."""
NUMBERS_PER_PROGRAM = 1024
"""Numbers that one program of the GPU handles."""
WINDOWS_PER_TILE, POINTS_PER_TILE = 32, 64
"""Windows, and points of each, that one program lays out."""
UNITS_PER_NORM = 8
"""Units that one program normalises."""
WINDOWS_PER_SUM, UNITS_PER_SUM = 128, 32
"""Windows, and units of each, that one program sums at a time."""


def launch_adam_step(
    states: tuple[Tensor, Tensor, Tensor], gradient: Tensor, *, scales: Tensor, steps_taken: Tensor, learns: Tensor,
    lr: float, betas: tuple[float, float], epsilon: float
) -> None:  # fmt: skip
    """Take Adam's step in the rows of weights, means and squares for which ``learns`` is true.

    The gradient of a row is multiplied by its scale; ``steps_taken`` counts the previous steps of each row.
    """
    rows, numbers = gradient.shape
    _adam_step_kernel[triton.cdiv(numbers, NUMBERS_PER_PROGRAM), rows](
        *states, gradient, scales, steps_taken, learns, numbers, lr, math.log2(betas[0]), math.log2(betas[1]),
        1 - betas[0], betas[1], 1 - betas[1], epsilon, NUMBERS=NUMBERS_PER_PROGRAM
    )  # fmt: skip


def launch_window_layout(
    samples: Tensor, starts: Tensor, mean: Tensor, deviation: Tensor, *, length: int, transposed_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Scale samples, (machines, channels, samples), and lay out the windows that start at ``starts``.

    Return them as (machines, windows, points), and transposed, as (machines, points, windows) in another type:
    products over the windows are fast if those are adjacent in memory. Starts are (machines, windows), or one row for
    all machines, which may also share their samples.
    """
    machines = max(len(samples), len(starts))
    _, channels, count = samples.shape
    windows, points = starts.shape[1], channels * length
    windows_out = torch.empty(machines, windows, points, device=samples.device)
    transposed = torch.empty(machines, points, windows, dtype=transposed_dtype, device=samples.device)
    grid = triton.cdiv(windows, WINDOWS_PER_TILE), channels * triton.cdiv(length, POINTS_PER_TILE), machines
    _window_layout_kernel[grid](
        samples.contiguous(), starts.contiguous(), mean.contiguous(), deviation.contiguous(), windows_out, transposed,
        channels * count if len(samples) > 1 else 0, windows if len(starts) > 1 else 0, channels, count, length,
        windows, WINDOWS=WINDOWS_PER_TILE, POINTS=POINTS_PER_TILE
    )  # fmt: skip
    return windows_out, transposed


def launch_add_bias(values: Tensor, bias: Tensor, *, rectify: bool) -> None:
    """Add to values, (machines, windows, units), the bias of each machine, (machines, units), then a ReLU if asked."""
    machines, windows, units = values.shape
    numbers = windows * units
    _add_bias_kernel[triton.cdiv(numbers, NUMBERS_PER_PROGRAM), machines](
        values, bias, bias.stride(0), numbers, units, RECTIFY=rectify, NUMBERS=NUMBERS_PER_PROGRAM
    )


def launch_sum_over_windows(values: Tensor, out: Tensor) -> None:
    """Write the sums of values, (machines, windows, units), over all windows to ``out``, (machines, units)."""
    machines, windows, units = values.shape
    _sum_over_windows_kernel[triton.cdiv(units, UNITS_PER_SUM), machines](
        values, out, values.stride(0), values.stride(1), out.stride(0), windows, units, WINDOWS=WINDOWS_PER_SUM,
        UNITS=UNITS_PER_SUM
    )  # fmt: skip


def launch_batch_norm_relu(
    values: Tensor, means: Tensor, variances: Tensor, momenta: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise values, (rows, windows, units), over their windows, and apply a ReLU.

    Return the outputs, the normalised values, and the factor of each unit, (rows, units). Running means and variances,
    (rows, units), are updated, each row with a momentum of its own.
    """
    rows, windows, units = values.shape
    out, normed = torch.empty_like(values), torch.empty_like(values)
    factors = torch.empty(rows, units, device=values.device)
    _batch_norm_relu_kernel[triton.cdiv(units, UNITS_PER_NORM), rows](
        values, out, normed, factors, means, variances, momenta, windows, units, epsilon,
        WINDOWS=triton.next_power_of_2(windows), UNITS=UNITS_PER_NORM
    )  # fmt: skip
    return out, normed, factors


def launch_batch_norm_relu_backward(gradient: Tensor, out: Tensor, normed: Tensor, factors: Tensor) -> Tensor:
    """Return the gradient of the values from that of the outputs."""
    rows, windows, units = gradient.shape
    result = torch.empty_like(gradient)
    _batch_norm_relu_backward_kernel[triton.cdiv(units, UNITS_PER_NORM), rows](
        gradient, out, normed, factors, result, windows, units, WINDOWS=triton.next_power_of_2(windows),
        UNITS=UNITS_PER_NORM
    )  # fmt: skip
    return result


# Pointers and numbers have no types that mypy knows; triton checks them when it compiles a kernel.
@compiled
def _adam_step_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    weights, means, squares, gradient, scales, steps_taken, learns, numbers, lr: tl.float64, first_log: tl.float64,
    second_log: tl.float64, new_mean, old_square, new_square, epsilon, NUMBERS: tl.constexpr
) -> None:  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    if tl.load(learns + row) != 0:
        place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
        here, at = place < numbers, row * numbers + place
        slope = tl.load(gradient + at, mask=here) * tl.load(scales + row)
        mean = tl.load(means + at, mask=here)
        square = tl.load(squares + at, mask=here)
        weight = tl.load(weights + at, mask=here)
        mean += (slope - mean) * new_mean
        square = square * old_square + slope * slope * new_square
        steps = tl.load(steps_taken + row).to(tl.float64) + 1
        rate = (lr / (1 - tl.exp2(steps * first_log))).to(tl.float32)
        correction = (1 / tl.sqrt(1 - tl.exp2(steps * second_log))).to(tl.float32)
        weight -= rate * mean / (tl.sqrt(square) * correction + epsilon)
        tl.store(means + at, mean, mask=here)
        tl.store(squares + at, square, mask=here)
        tl.store(weights + at, weight, mask=here)


@compiled
def _window_layout_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    samples, starts, mean, deviation, windows_out, transposed, samples_row, starts_row, channels, count, length,
    windows, WINDOWS: tl.constexpr, POINTS: tl.constexpr
) -> None:  # fmt: skip
    machine = tl.program_id(2).to(tl.int64)
    blocks = tl.cdiv(length, POINTS)
    channel, block = tl.program_id(1) // blocks, tl.program_id(1) % blocks
    window = tl.program_id(0) * WINDOWS + tl.arange(0, WINDOWS)
    point = block * POINTS + tl.arange(0, POINTS)
    here = (window < windows)[:, None] & (point < length)[None, :]
    start = tl.load(starts + machine * starts_row + window, mask=window < windows, other=0)
    at = machine * samples_row + channel * count + start[:, None] + point[None, :]
    value = (tl.load(samples + at, mask=here) - tl.load(mean + channel)) / tl.load(deviation + channel)
    points = channels * length
    first = machine * windows * points
    into = channel * length + point
    tl.store(windows_out + first + window[:, None] * points + into[None, :], value, mask=here)
    tl.store(
        transposed + first + into[None, :] * windows + window[:, None], value.to(transposed.dtype.element_ty), mask=here
    )


@compiled
def _add_bias_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    values, bias, bias_row, numbers, units, RECTIFY: tl.constexpr, NUMBERS: tl.constexpr
) -> None:
    machine = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    here, at = place < numbers, machine * numbers + place
    value = tl.load(values + at, mask=here) + tl.load(bias + machine * bias_row + place % units, mask=here)
    if RECTIFY:
        value = tl.maximum(value, 0.0)
    tl.store(values + at, value, mask=here)


@compiled
def _sum_over_windows_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    values, out, machine_stride, window_stride, out_row, windows, units, WINDOWS: tl.constexpr, UNITS: tl.constexpr
) -> None:
    machine = tl.program_id(1).to(tl.int64)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    total = tl.zeros((WINDOWS, UNITS), dtype=tl.float32)
    for begin in range(0, windows, WINDOWS):
        window = begin + tl.arange(0, WINDOWS)
        here = (window < windows)[:, None] & (unit < units)[None, :]
        at = machine * machine_stride + window[:, None] * window_stride + unit[None, :]
        total += tl.load(values + at, mask=here, other=0.0)
    tl.store(out + machine * out_row + unit, tl.sum(total, axis=0), mask=unit < units)


@compiled
def _batch_norm_relu_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    values, out, normed, factors, means, variances, momenta, windows, units, epsilon, WINDOWS: tl.constexpr,
    UNITS: tl.constexpr
) -> None:  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    window, unit = tl.arange(0, WINDOWS), tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (window < windows)[:, None] & (unit < units)[None, :]
    at = row * windows * units + window[:, None] * units + unit[None, :]
    value = tl.load(values + at, mask=here, other=0.0)
    mean = tl.sum(value, axis=0) / windows
    centred = tl.where(here, value - mean[None, :], 0.0)
    variance = tl.sum(centred * centred, axis=0) / windows
    factor = 1.0 / tl.sqrt(variance + epsilon)
    result = centred * factor[None, :]
    tl.store(normed + at, result, mask=here)
    tl.store(out + at, tl.maximum(result, 0.0), mask=here)
    at_unit, momentum = row * units + unit, tl.load(momenta + row)
    tl.store(factors + at_unit, factor, mask=unit < units)
    running = tl.load(means + at_unit, mask=unit < units)
    tl.store(means + at_unit, running + (mean - running) * momentum, mask=unit < units)
    running = tl.load(variances + at_unit, mask=unit < units)
    unbiased = variance * windows / (windows - 1)
    tl.store(variances + at_unit, running + (unbiased - running) * momentum, mask=unit < units)


@compiled
def _batch_norm_relu_backward_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    gradient, out, normed, factors, result, windows, units, WINDOWS: tl.constexpr, UNITS: tl.constexpr
) -> None:
    row = tl.program_id(1).to(tl.int64)
    window, unit = tl.arange(0, WINDOWS), tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (window < windows)[:, None] & (unit < units)[None, :]
    at = row * windows * units + window[:, None] * units + unit[None, :]
    slope = tl.load(gradient + at, mask=here, other=0.0)
    slope = tl.where(tl.load(out + at, mask=here, other=0.0) > 0, slope, 0.0)
    value = tl.load(normed + at, mask=here, other=0.0)
    mean = tl.sum(slope, axis=0) / windows
    projection = tl.sum(slope * value, axis=0) / windows
    factor = tl.load(factors + row * units + unit, mask=unit < units, other=0.0)
    tl.store(result + at, (slope - mean[None, :] - value * projection[None, :]) * factor[None, :], mask=here)
