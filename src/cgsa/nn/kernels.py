"""What a GPU does in one pass over its memory, where tensor operations would take several.

Imported where tensors are on a GPU: the compiler is only there beside one.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 1024
"""Numbers that one program of the GPU takes."""
WINDOWS, POINTS = 32, 64
"""Windows, and points of each, that one program lays out."""
SUMMED, UNITS = 128, 32
"""Windows, and units of each, that one program sums at a time."""


def step_rows(
    states: tuple[Tensor, Tensor, Tensor],
    gradient: Tensor,
    *,
    rates: Tensor,
    corrections: Tensor,
    learns: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Take Adam's step in rows of weights, means and squares for which ``learns`` is true."""
    rows, numbers = gradient.shape
    _step_rows[triton.cdiv(numbers, NUMBERS), rows](
        *states,
        gradient,
        rates,
        corrections,
        learns,
        numbers,
        1 - betas[0],
        betas[1],
        1 - betas[1],
        epsilon,
        NUMBERS=NUMBERS,
    )


def lay_out(samples: Tensor, mean: Tensor, deviation: Tensor, length: int, step: int) -> tuple[Tensor, Tensor]:
    """Scale samples, (machines, channels, samples), and lay their windows out.

    Return them as (machines, windows, points), and turned, as (machines, points, windows) in sixteen bits: products
    over the windows are quick where those are neighbours in memory.
    """
    machines, channels, count = samples.shape
    windows, points = (count - length) // step + 1, channels * length
    laid = torch.empty(machines, windows, points, device=samples.device)
    turned = torch.empty(machines, points, windows, dtype=torch.bfloat16, device=samples.device)
    _lay_out[triton.cdiv(windows, WINDOWS), channels * triton.cdiv(length, POINTS), machines](
        samples.contiguous(),
        mean.contiguous(),
        deviation.contiguous(),
        laid,
        turned,
        channels,
        count,
        length,
        step,
        windows,
        WINDOWS=WINDOWS,
        POINTS=POINTS,
    )
    return laid, turned


def add_bias(values: Tensor, bias: Tensor, *, rectify: bool) -> None:
    """Add to values, (machines, windows, units), a bias for each machine, (machines, units); cut what is negative."""
    machines, windows, units = values.shape
    numbers = windows * units
    _add_bias[triton.cdiv(numbers, NUMBERS), machines](
        values, bias, bias.stride(0), numbers, units, RECTIFY=rectify, NUMBERS=NUMBERS
    )


def sum_windows(values: Tensor, out: Tensor) -> None:
    """Write the sums of values, (machines, windows, units), over all windows to ``out``, (machines, units)."""
    machines, windows, units = values.shape
    _sum_windows[triton.cdiv(units, UNITS), machines](
        values, out, values.stride(0), values.stride(1), out.stride(0), windows, units, WINDOWS=SUMMED, UNITS=UNITS
    )


# Pointers and numbers have no types that mypy knows; those are the compiler's business.
@triton.jit  # type: ignore[untyped-decorator]
def _step_rows(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    weights,
    means,
    squares,
    gradient,
    rates,
    corrections,
    learns,
    numbers,
    new_mean,
    old_square,
    new_square,
    epsilon,
    NUMBERS: tl.constexpr,
) -> None:
    row = tl.program_id(1).to(tl.int64)
    if tl.load(learns + row) != 0:
        place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
        here, at = place < numbers, row * numbers + place
        slope = tl.load(gradient + at, mask=here)
        mean = tl.load(means + at, mask=here)
        square = tl.load(squares + at, mask=here)
        weight = tl.load(weights + at, mask=here)
        mean += (slope - mean) * new_mean
        square = square * old_square + slope * slope * new_square
        weight -= tl.load(rates + row) * mean / (tl.sqrt(square) * tl.load(corrections + row) + epsilon)
        tl.store(means + at, mean, mask=here)
        tl.store(squares + at, square, mask=here)
        tl.store(weights + at, weight, mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def _lay_out(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    samples,
    mean,
    deviation,
    laid,
    turned,
    channels,
    count,
    length,
    step,
    windows,
    WINDOWS: tl.constexpr,
    POINTS: tl.constexpr,
) -> None:
    machine = tl.program_id(2).to(tl.int64)
    blocks = tl.cdiv(length, POINTS)
    channel, block = tl.program_id(1) // blocks, tl.program_id(1) % blocks
    window = tl.program_id(0) * WINDOWS + tl.arange(0, WINDOWS)
    point = block * POINTS + tl.arange(0, POINTS)
    here = (window < windows)[:, None] & (point < length)[None, :]
    at = (machine * channels + channel) * count + window[:, None] * step + point[None, :]
    value = (tl.load(samples + at, mask=here) - tl.load(mean + channel)) / tl.load(deviation + channel)
    points = channels * length
    first = machine * windows * points
    into = channel * length + point
    tl.store(laid + first + window[:, None] * points + into[None, :], value, mask=here)
    tl.store(turned + first + into[None, :] * windows + window[:, None], value.to(tl.bfloat16), mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def _add_bias(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    values, bias, bias_row, numbers, units, RECTIFY: tl.constexpr, NUMBERS: tl.constexpr
) -> None:
    machine = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    here, at = place < numbers, machine * numbers + place
    value = tl.load(values + at, mask=here) + tl.load(bias + machine * bias_row + place % units, mask=here)
    if RECTIFY:
        value = tl.maximum(value, 0.0)
    tl.store(values + at, value, mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def _sum_windows(  # type: ignore[no-untyped-def]  # noqa: PLR0917
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
