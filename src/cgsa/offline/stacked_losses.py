"""Losses of several models at once, with their gradients written out; a GPU finds each in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.offline.step import ERROR, RIGHT

SUMS = ("loss", "classification", RIGHT, "condition", ERROR)
"""What is added up over the steps of an epoch, by place."""


def judge_classes(scores: Tensor, labels: Tensor, index: Tensor, learns: Tensor, sums: Tensor) -> Tensor:
    """Return the gradient of the cross entropy, eq. (2), of scores, (models, windows, classes).

    Windows of every model are those at its row of ``index``. Models for which ``learns`` is true add to their sums.
    """
    if scores.is_cuda:
        from cgsa.engines import kernels  # noqa: PLC0415

        return kernels.judge_classes(scores, labels, index, learns, sums)
    label, size = labels[index][:, :, None], scores.shape[1]
    chances = torch.log_softmax(scores, dim=2)
    classification = -chances.gather(2, label).mean(dim=(1, 2))
    right = (scores.argmax(dim=2, keepdim=True) == label).sum(dim=(1, 2))
    sums[:, :3] += torch.stack([classification, classification, right], dim=1) * learns[:, None]
    return (chances.exp() - (label == torch.arange(scores.shape[2])).to(scores)) / size


def judge_conditions(
    told: Tensor, conditions: Tensor, index: Tensor, learns: Tensor, sums: Tensor, *, bounds: tuple[float, float]
) -> Tensor:
    """Return the gradient of eq. (1) for what discriminators told: means, then log variances, of every model."""
    if told.is_cuda:
        from cgsa.engines import kernels  # noqa: PLC0415

        return kernels.judge_conditions(told, conditions, index, learns, sums, bounds=bounds)
    (mean, log_variance), size, (low, high) = told.chunk(2), told.shape[1], bounds
    clamped, apart = log_variance.clamp(low, high), mean - conditions[index]
    weight = torch.exp(-clamped)
    condition = (0.5 * clamped + 0.5 * apart**2 * weight).sum(dim=2).mean(dim=1)
    found = torch.stack([condition, condition, (apart**2).sum(dim=(1, 2))], dim=1)
    sums[:, [0, 3, 4]] += found * learns[:, None]
    inside = (log_variance >= low) & (log_variance <= high)
    return torch.cat([apart * weight / size, 0.5 * (1 - apart**2 * weight) * inside / size])


def add_reversed(of_features: Tensor, found: Tensor, coefficient: Tensor) -> Tensor:
    """Return the gradient of the features with that of the discriminators, turned round and scaled, eq. (3)."""
    if of_features.is_cuda:
        from cgsa.engines import kernels  # noqa: PLC0415

        kernels.add_reversed(of_features, found, coefficient)
        return of_features
    of_mean, of_log_variance = found.chunk(2)
    return of_features - coefficient[:, None, None] * (of_mean + of_log_variance)
