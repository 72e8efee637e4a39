"""GPU kernels of training losses: one pass over memory where tensor operations would take several.

Imported only where tensors are on a GPU: the compiler is installed with PyTorch for CUDA.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgsa.engines.layer_kernels import NUMBERS_PER_PROGRAM, compiled


def launch_cross_entropy(scores: Tensor, labels: Tensor, index: Tensor, learns: Tensor, sums: Tensor) -> Tensor:
    """Return the gradient of the cross entropy of scores, (models, windows, classes), with the labels at ``index``.

    To the sums of a model for which ``learns`` is true, (models, sums), it adds the cross entropy at 0 and 1, and at 2
    the number of windows classified correctly.
    """
    models, windows, classes = scores.shape
    gradient = torch.empty_like(scores)
    _cross_entropy_kernel[(models,)](
        scores, labels, index, learns, gradient, sums, sums.shape[1], windows, classes,
        WINDOWS=triton.next_power_of_2(windows), CLASSES=triton.next_power_of_2(classes)
    )  # fmt: skip
    return gradient


def launch_condition_loss(
    predicted: Tensor, conditions: Tensor, index: Tensor, learns: Tensor, sums: Tensor, *, bounds: tuple[float, float]
) -> Tensor:
    """Return the gradient of eq. (1) for means and log variances, (twice the models, windows, conditions).

    Log variances stay between ``bounds``. To the sums of a model for which ``learns`` is true it adds the loss at 0 and
    3, and at 4 the squared error of the mean.
    """
    rows, windows, count = predicted.shape
    gradient = torch.empty_like(predicted)
    _condition_loss_kernel[(rows // 2,)](
        predicted, conditions, index, learns, gradient, sums, sums.shape[1], rows // 2 * windows * count, windows,
        count, *bounds, WINDOWS=triton.next_power_of_2(windows), COUNT=triton.next_power_of_2(count)
    )  # fmt: skip
    return gradient


def launch_gradient_reversal(gradient: Tensor, branches: Tensor, coefficient: Tensor) -> None:
    """Subtract from a gradient, (models, windows, units), those of both branches, (twice the models, windows, units).

    Both are multiplied by the coefficient of their model first.
    """
    models, windows, units = gradient.shape
    numbers = windows * units
    _gradient_reversal_kernel[triton.cdiv(numbers, NUMBERS_PER_PROGRAM), models](
        gradient, branches, coefficient, models * numbers, numbers, NUMBERS=NUMBERS_PER_PROGRAM
    )


# Pointers and numbers have no types that mypy knows; triton checks them when it compiles a kernel.
@compiled
def _cross_entropy_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    scores, labels, index, learns, gradient, sums, columns, windows, classes, WINDOWS: tl.constexpr,
    CLASSES: tl.constexpr
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    window, kind = tl.arange(0, WINDOWS), tl.arange(0, CLASSES)
    valid = window < windows
    here = valid[:, None] & (kind < classes)[None, :]
    at = row * windows * classes + window[:, None] * classes + kind[None, :]
    score = tl.load(scores + at, mask=here, other=-float("inf"))
    # Rows of padding have no largest score; they are left out of every sum.
    largest = tl.where(valid, tl.max(score, axis=1), 0.0)
    total = tl.where(valid, tl.sum(tl.exp(score - largest[:, None]), axis=1), 1.0)
    log_probability = score - largest[:, None] - tl.log(total)[:, None]
    label = tl.load(labels + tl.load(index + row * windows + window, mask=valid, other=0), mask=valid, other=-1)
    is_label = kind[None, :] == label[:, None]
    slope = (tl.exp(log_probability) - tl.where(is_label, 1.0, 0.0)) / windows
    tl.store(gradient + at, slope, mask=here)
    if tl.load(learns + row) != 0:
        loss = -tl.sum(tl.sum(tl.where(is_label & here, log_probability, 0.0), axis=1), axis=0) / windows
        correct = tl.sum(tl.where(valid & (tl.argmax(score, axis=1) == label), 1, 0), axis=0)
        own = sums + row * columns
        tl.store(own, tl.load(own) + loss)
        tl.store(own + 1, tl.load(own + 1) + loss)
        tl.store(own + 2, tl.load(own + 2) + correct)


@compiled
def _condition_loss_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    predicted, conditions, index, learns, gradient, sums, columns, between, windows, count, low, high,
    WINDOWS: tl.constexpr, COUNT: tl.constexpr
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    window, kind = tl.arange(0, WINDOWS), tl.arange(0, COUNT)
    valid = window < windows
    here = valid[:, None] & (kind < count)[None, :]
    at = row * windows * count + window[:, None] * count + kind[None, :]
    chosen = tl.load(index + row * windows + window, mask=valid, other=0)
    measured = tl.load(conditions + chosen[:, None] * count + kind[None, :], mask=here, other=0.0)
    error_of_mean = tl.load(predicted + at, mask=here, other=0.0) - measured
    log_variance = tl.load(predicted + between + at, mask=here, other=0.0)
    clamped = tl.minimum(tl.maximum(log_variance, low), high)
    weight = tl.exp(-clamped)
    inside = (log_variance >= low) & (log_variance <= high)
    tl.store(gradient + at, error_of_mean * weight / windows, mask=here)
    slope = tl.where(inside, 0.5 * (1.0 - error_of_mean * error_of_mean * weight) / windows, 0.0)
    tl.store(gradient + between + at, slope, mask=here)
    if tl.load(learns + row) != 0:
        each = tl.where(here, 0.5 * clamped + 0.5 * error_of_mean * error_of_mean * weight, 0.0)
        loss = tl.sum(tl.sum(each, axis=1), axis=0) / windows
        error = tl.sum(tl.sum(tl.where(here, error_of_mean * error_of_mean, 0.0), axis=1), axis=0)
        own = sums + row * columns
        tl.store(own, tl.load(own) + loss)
        tl.store(own + 3, tl.load(own + 3) + loss)
        tl.store(own + 4, tl.load(own + 4) + error)


@compiled
def _gradient_reversal_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    gradient, branches, coefficient, between, numbers, NUMBERS: tl.constexpr
) -> None:
    model = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    here, at = place < numbers, model * numbers + place
    both = tl.load(branches + at, mask=here) + tl.load(branches + between + at, mask=here)
    slope = tl.load(gradient + at, mask=here) - tl.load(coefficient + model) * both
    tl.store(gradient + at, slope, mask=here)
