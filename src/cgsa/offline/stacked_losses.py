"""Losses of a stack of models, with their gradients written out; a GPU computes each in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.engines.graph import has_kernels
from cgsa.offline.step import CORRECT, SQUARED_ERROR

if has_kernels():
    from cgsa.engines import loss_kernels

SUMS = ("loss", "classification", CORRECT, "condition", SQUARED_ERROR)
"""Sums over the steps of an epoch, in the order of their columns."""


def cross_entropy_gradient(scores: Tensor, labels: Tensor, index: Tensor, learns: Tensor, sums: Tensor) -> Tensor:
    """Return the gradient of the cross entropy, eq. (2), of scores, (models, windows, classes).

    The windows of each model are given by its row of ``index``. Models for which ``learns`` is true add to their sums.
    """
    if scores.is_cuda:
        return loss_kernels.launch_cross_entropy(scores, labels, index, learns, sums)
    label, size = labels[index][:, :, None], scores.shape[1]
    log_probabilities = torch.log_softmax(scores, dim=2)
    classification = -log_probabilities.gather(2, label).mean(dim=(1, 2))
    correct = (scores.argmax(dim=2, keepdim=True) == label).sum(dim=(1, 2))
    sums[:, :3] += torch.stack([classification, classification, correct], dim=1) * learns[:, None]
    return (log_probabilities.exp() - (label == torch.arange(scores.shape[2])).to(scores)) / size


def condition_gradient(
    predicted: Tensor, conditions: Tensor, index: Tensor, learns: Tensor, sums: Tensor, *, bounds: tuple[float, float]
) -> Tensor:
    """Return the gradient of eq. (1) for the outputs of discriminators: means, then log-variances, of every model."""
    if predicted.is_cuda:
        return loss_kernels.launch_condition_loss(predicted, conditions, index, learns, sums, bounds=bounds)
    (mean, log_variance), size, (low, high) = predicted.chunk(2), predicted.shape[1], bounds
    clamped, error = log_variance.clamp(low, high), mean - conditions[index]
    weight = torch.exp(-clamped)
    condition = (0.5 * clamped + 0.5 * error**2 * weight).sum(dim=2).mean(dim=1)
    losses = torch.stack([condition, condition, (error**2).sum(dim=(1, 2))], dim=1)
    sums[:, [0, 3, 4]] += losses * learns[:, None]
    inside = (log_variance >= low) & (log_variance <= high)
    return torch.cat([error * weight / size, 0.5 * (1 - error**2 * weight) * inside / size])


def add_reversed_gradient(of_features: Tensor, of_branches: Tensor, coefficient: Tensor) -> Tensor:
    """Return the gradient of the features, less that of both discriminator branches times lambda, eq. (3)."""
    if of_features.is_cuda:
        loss_kernels.launch_gradient_reversal(of_features, of_branches, coefficient)
        return of_features
    of_mean, of_log_variance = of_branches.chunk(2)
    return of_features - coefficient[:, None, None] * (of_mean + of_log_variance)
