"""What a GPU does in one pass over its memory, where tensor operations would take several.

Imported where tensors are on a GPU: the compiler is only there beside one.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 1024
"""Numbers that one program of the GPU takes."""
WINDOWS, POINTS = 32, 64
"""Windows, and points of each, that one program lays out."""
NORMED = 8
"""Units that one program norms."""
SUMMED, UNITS = 128, 32
"""Windows, and units of each, that one program sums at a time."""


def step_rows(
    states: tuple[Tensor, Tensor, Tensor],
    gradient: Tensor,
    *,
    scales: Tensor,
    taken: Tensor,
    learns: Tensor,
    lr: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Take Adam's step in rows of weights, means and squares for which ``learns`` is true.

    The gradient of a row is multiplied by its scale; ``taken`` are the steps that each row has behind it.
    """
    rows, numbers = gradient.shape
    _step_rows[triton.cdiv(numbers, NUMBERS), rows](
        *states,
        gradient,
        scales,
        taken,
        learns,
        numbers,
        lr,
        math.log2(betas[0]),
        math.log2(betas[1]),
        1 - betas[0],
        betas[1],
        1 - betas[1],
        epsilon,
        NUMBERS=NUMBERS,
    )


def lay_out(
    samples: Tensor, starts: Tensor, mean: Tensor, deviation: Tensor, *, length: int, turned_in: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Scale samples, (machines, channels, samples), and lay out the windows that start at ``starts``.

    Return them as (machines, windows, points), and turned, as (machines, points, windows) in a type of its own:
    products over the windows are quick where those are neighbours in memory. Starts are (machines, windows), or one row
    for all machines; and all machines may share their samples.
    """
    machines = max(len(samples), len(starts))
    _, channels, count = samples.shape
    windows, points = starts.shape[1], channels * length
    laid = torch.empty(machines, windows, points, device=samples.device)
    turned = torch.empty(machines, points, windows, dtype=turned_in, device=samples.device)
    _lay_out[triton.cdiv(windows, WINDOWS), channels * triton.cdiv(length, POINTS), machines](
        samples.contiguous(),
        starts.contiguous(),
        mean.contiguous(),
        deviation.contiguous(),
        laid,
        turned,
        channels * count if len(samples) > 1 else 0,
        windows if len(starts) > 1 else 0,
        channels,
        count,
        length,
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


def norm_rectify(
    values: Tensor, means: Tensor, variances: Tensor, momenta: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Norm values, (rows, windows, units), over their windows, and cut what is negative.

    Return what comes out, what was normed, and by what each unit was multiplied, (rows, units). Running means and
    variances, (rows, units), learn what is usual, each row with a momentum of its own.
    """
    rows, windows, units = values.shape
    out, normed = torch.empty_like(values), torch.empty_like(values)
    factors = torch.empty(rows, units, device=values.device)
    _norm_rectify[triton.cdiv(units, NORMED), rows](
        values,
        out,
        normed,
        factors,
        means,
        variances,
        momenta,
        windows,
        units,
        epsilon,
        WINDOWS=triton.next_power_of_2(windows),
        UNITS=NORMED,
    )
    return out, normed, factors


def norm_rectify_back(gradient: Tensor, out: Tensor, normed: Tensor, factors: Tensor) -> Tensor:
    """Return the gradient of the values from that of what came out."""
    rows, windows, units = gradient.shape
    found = torch.empty_like(gradient)
    _norm_rectify_back[triton.cdiv(units, NORMED), rows](
        gradient,
        out,
        normed,
        factors,
        found,
        windows,
        units,
        WINDOWS=triton.next_power_of_2(windows),
        UNITS=NORMED,
    )
    return found


def judge_classes(scores: Tensor, labels: Tensor, index: Tensor, learns: Tensor, sums: Tensor) -> Tensor:
    """Return the gradient of the cross entropy of scores, (models, windows, classes), with the labels at ``index``.

    To the sums of a model for which ``learns`` is true, (models, sums), it adds the cross entropy at 0 and 1, and at 2
    how many windows are classified right.
    """
    models, windows, classes = scores.shape
    gradient = torch.empty_like(scores)
    _judge_classes[(models,)](
        scores,
        labels,
        index,
        learns,
        gradient,
        sums,
        sums.shape[1],
        windows,
        classes,
        WINDOWS=triton.next_power_of_2(windows),
        CLASSES=triton.next_power_of_2(classes),
    )
    return gradient


def judge_conditions(
    told: Tensor, conditions: Tensor, index: Tensor, learns: Tensor, sums: Tensor, *, bounds: tuple[float, float]
) -> Tensor:
    """Return the gradient of eq. (1) for means and log variances, (twice the models, windows, conditions).

    Log variances stay between ``bounds``. To the sums of a model for which ``learns`` is true it adds the loss at 0 and
    3, and at 4 the squared error of the mean.
    """
    rows, windows, count = told.shape
    gradient = torch.empty_like(told)
    _judge_conditions[(rows // 2,)](
        told,
        conditions,
        index,
        learns,
        gradient,
        sums,
        sums.shape[1],
        rows // 2 * windows * count,
        windows,
        count,
        *bounds,
        WINDOWS=triton.next_power_of_2(windows),
        COUNT=triton.next_power_of_2(count),
    )
    return gradient


def add_reversed(gradient: Tensor, found: Tensor, coefficient: Tensor) -> None:
    """Take from a gradient, (models, windows, units), what both branches found, (twice the models, windows, units).

    Each model has a coefficient, by which that is multiplied.
    """
    models, windows, units = gradient.shape
    numbers = windows * units
    _add_reversed[triton.cdiv(numbers, NUMBERS), models](
        gradient, found, coefficient, models * numbers, numbers, NUMBERS=NUMBERS
    )


# Pointers and numbers have no types that mypy knows; those are the compiler's business.
@triton.jit  # type: ignore[untyped-decorator]
def _step_rows(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    weights,
    means,
    squares,
    gradient,
    scales,
    taken,
    learns,
    numbers,
    lr: tl.float64,
    first_log: tl.float64,
    second_log: tl.float64,
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
        slope = tl.load(gradient + at, mask=here) * tl.load(scales + row)
        mean = tl.load(means + at, mask=here)
        square = tl.load(squares + at, mask=here)
        weight = tl.load(weights + at, mask=here)
        mean += (slope - mean) * new_mean
        square = square * old_square + slope * slope * new_square
        steps = tl.load(taken + row).to(tl.float64) + 1
        rate = (lr / (1 - tl.exp2(steps * first_log))).to(tl.float32)
        correction = (1 / tl.sqrt(1 - tl.exp2(steps * second_log))).to(tl.float32)
        weight -= rate * mean / (tl.sqrt(square) * correction + epsilon)
        tl.store(means + at, mean, mask=here)
        tl.store(squares + at, square, mask=here)
        tl.store(weights + at, weight, mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def _lay_out(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    samples,
    starts,
    mean,
    deviation,
    laid,
    turned,
    samples_row,
    starts_row,
    channels,
    count,
    length,
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
    start = tl.load(starts + machine * starts_row + window, mask=window < windows, other=0)
    at = machine * samples_row + channel * count + start[:, None] + point[None, :]
    value = (tl.load(samples + at, mask=here) - tl.load(mean + channel)) / tl.load(deviation + channel)
    points = channels * length
    first = machine * windows * points
    into = channel * length + point
    tl.store(laid + first + window[:, None] * points + into[None, :], value, mask=here)
    tl.store(turned + first + into[None, :] * windows + window[:, None], value.to(turned.dtype.element_ty), mask=here)


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


@triton.jit  # type: ignore[untyped-decorator]
def _norm_rectify(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    values,
    out,
    normed,
    factors,
    means,
    variances,
    momenta,
    windows,
    units,
    epsilon,
    WINDOWS: tl.constexpr,
    UNITS: tl.constexpr,
) -> None:
    row = tl.program_id(1).to(tl.int64)
    window, unit = tl.arange(0, WINDOWS), tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (window < windows)[:, None] & (unit < units)[None, :]
    at = row * windows * units + window[:, None] * units + unit[None, :]
    value = tl.load(values + at, mask=here, other=0.0)
    mean = tl.sum(value, axis=0) / windows
    apart = tl.where(here, value - mean[None, :], 0.0)
    variance = tl.sum(apart * apart, axis=0) / windows
    factor = 1.0 / tl.sqrt(variance + epsilon)
    found = apart * factor[None, :]
    tl.store(normed + at, found, mask=here)
    tl.store(out + at, tl.maximum(found, 0.0), mask=here)
    at_unit, momentum = row * units + unit, tl.load(momenta + row)
    tl.store(factors + at_unit, factor, mask=unit < units)
    usual = tl.load(means + at_unit, mask=unit < units)
    tl.store(means + at_unit, usual + (mean - usual) * momentum, mask=unit < units)
    usual = tl.load(variances + at_unit, mask=unit < units)
    spread = variance * windows / (windows - 1)
    tl.store(variances + at_unit, usual + (spread - usual) * momentum, mask=unit < units)


@triton.jit  # type: ignore[untyped-decorator]
def _norm_rectify_back(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    gradient, out, normed, factors, found, windows, units, WINDOWS: tl.constexpr, UNITS: tl.constexpr
) -> None:
    row = tl.program_id(1).to(tl.int64)
    window, unit = tl.arange(0, WINDOWS), tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (window < windows)[:, None] & (unit < units)[None, :]
    at = row * windows * units + window[:, None] * units + unit[None, :]
    slope = tl.load(gradient + at, mask=here, other=0.0)
    slope = tl.where(tl.load(out + at, mask=here, other=0.0) > 0, slope, 0.0)
    value = tl.load(normed + at, mask=here, other=0.0)
    mean = tl.sum(slope, axis=0) / windows
    along = tl.sum(slope * value, axis=0) / windows
    factor = tl.load(factors + row * units + unit, mask=unit < units, other=0.0)
    tl.store(found + at, (slope - mean[None, :] - value * along[None, :]) * factor[None, :], mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def _judge_classes(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    scores,
    labels,
    index,
    learns,
    gradient,
    sums,
    columns,
    windows,
    classes,
    WINDOWS: tl.constexpr,
    CLASSES: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    window, kind = tl.arange(0, WINDOWS), tl.arange(0, CLASSES)
    there = window < windows
    here = there[:, None] & (kind < classes)[None, :]
    at = row * windows * classes + window[:, None] * classes + kind[None, :]
    score = tl.load(scores + at, mask=here, other=-float("inf"))
    # Rows that only fill up have no top; they are left out of every sum.
    top = tl.where(there, tl.max(score, axis=1), 0.0)
    total = tl.where(there, tl.sum(tl.exp(score - top[:, None]), axis=1), 1.0)
    chance = score - top[:, None] - tl.log(total)[:, None]
    label = tl.load(labels + tl.load(index + row * windows + window, mask=there, other=0), mask=there, other=-1)
    wanted = kind[None, :] == label[:, None]
    slope = (tl.exp(chance) - tl.where(wanted, 1.0, 0.0)) / windows
    tl.store(gradient + at, slope, mask=here)
    if tl.load(learns + row) != 0:
        loss = -tl.sum(tl.sum(tl.where(wanted & here, chance, 0.0), axis=1), axis=0) / windows
        right = tl.sum(tl.where(there & (tl.argmax(score, axis=1) == label), 1, 0), axis=0)
        own = sums + row * columns
        tl.store(own, tl.load(own) + loss)
        tl.store(own + 1, tl.load(own + 1) + loss)
        tl.store(own + 2, tl.load(own + 2) + right)


@triton.jit  # type: ignore[untyped-decorator]
def _judge_conditions(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    told,
    conditions,
    index,
    learns,
    gradient,
    sums,
    columns,
    between,
    windows,
    count,
    low,
    high,
    WINDOWS: tl.constexpr,
    COUNT: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    window, kind = tl.arange(0, WINDOWS), tl.arange(0, COUNT)
    there = window < windows
    here = there[:, None] & (kind < count)[None, :]
    at = row * windows * count + window[:, None] * count + kind[None, :]
    chosen = tl.load(index + row * windows + window, mask=there, other=0)
    measured = tl.load(conditions + chosen[:, None] * count + kind[None, :], mask=here, other=0.0)
    apart = tl.load(told + at, mask=here, other=0.0) - measured
    log_variance = tl.load(told + between + at, mask=here, other=0.0)
    clamped = tl.minimum(tl.maximum(log_variance, low), high)
    weight = tl.exp(-clamped)
    inside = (log_variance >= low) & (log_variance <= high)
    tl.store(gradient + at, apart * weight / windows, mask=here)
    slope = tl.where(inside, 0.5 * (1.0 - apart * apart * weight) / windows, 0.0)
    tl.store(gradient + between + at, slope, mask=here)
    if tl.load(learns + row) != 0:
        each = tl.where(here, 0.5 * clamped + 0.5 * apart * apart * weight, 0.0)
        loss = tl.sum(tl.sum(each, axis=1), axis=0) / windows
        error = tl.sum(tl.sum(tl.where(here, apart * apart, 0.0), axis=1), axis=0)
        own = sums + row * columns
        tl.store(own, tl.load(own) + loss)
        tl.store(own + 3, tl.load(own + 3) + loss)
        tl.store(own + 4, tl.load(own + 4) + error)


@triton.jit  # type: ignore[untyped-decorator]
def _add_reversed(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    gradient, found, coefficient, between, numbers, NUMBERS: tl.constexpr
) -> None:
    model = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    here, at = place < numbers, model * numbers + place
    both = tl.load(found + at, mask=here) + tl.load(found + between + at, mask=here)
    slope = tl.load(gradient + at, mask=here) - tl.load(coefficient + model) * both
    tl.store(gradient + at, slope, mask=here)
