"""Linear classifiers of an ensemble, fitted to features of few recordings.

Windows of one recording are nearly repetitions of each other. What counts is how
recordings of a class differ from condition to condition, so both classifiers are
strongly regularised, and discriminant analysis takes the scatter between
recordings for what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from cgsa.nn.ensemble import KernelHead

FloatArray = npt.NDArray[np.float64]

LOGISTIC_PENALTY = 1e-4
"""Weight of the squared coefficients, relative to the mean loss; features are divided by the root of their number."""
LOGISTIC_ITERATIONS = 60
LOGISTIC_SLOPE = 1e-5
"""Largest slope of the loss along a coefficient at which the fit ends."""
KERNEL_GAMMA = 0.5
"""The kernel falls to 1/e at a squared distance of 1 / this; that of two random training windows is about 2."""
LDA_SHRINKAGE = 0.3
"""Share of the covariance that is replaced by its mean over the axes."""
LEAST_VARIANCE = 1e-9
"""Directions with less than this share of the largest variance are numerical noise."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear classifier of raw features."""

    weight: Tensor
    """(classes, features)"""
    bias: Tensor
    """(classes,), for features relative to ``centre``."""


class FeatureSpace:
    """Training features in the coordinates of their principal axes, in double precision.

    Nothing is left out, so a penalty on coefficients means the same as in the space of the features; but there are at
    most as many coordinates as windows.
    """

    def __init__(self, features: Tensor) -> None:
        exact = features.double()
        self.centre = exact.mean(dim=0)
        deviation = exact.std(dim=0, correction=0)
        # A feature that never changes in training says nothing, and must not become infinite when it does later.
        typical = deviation.median().clamp(min=1e-12)
        self.scale = deviation.clamp(min=1e-3 * typical) * features.shape[1] ** 0.5
        scaled = (exact - self.centre) / self.scale
        windows, width = scaled.shape
        if windows <= width:
            variance, axes = torch.linalg.eigh(scaled @ scaled.T)
            kept = variance > LEAST_VARIANCE * variance[-1]
            self.axes = scaled.T @ (axes[:, kept] / variance[kept].sqrt())
            self.points = axes[:, kept] * variance[kept].sqrt()
            """(windows, axes)"""
        else:
            variance, axes = torch.linalg.eigh(scaled.T @ scaled)
            self.axes = axes[:, variance > LEAST_VARIANCE * variance[-1]]
            self.points = scaled @ self.axes

    def model(self, weight: Tensor, bias: Tensor, centre: Tensor) -> LinearModel:
        """Return a classifier of these coordinates, (axes, classes) and (classes,), as one of raw features.

        Its bias is that for features relative to ``centre``.
        """
        raw = (self.axes @ weight).T / self.scale
        return LinearModel(raw, bias + raw @ (centre - self.centre))


def fit_logistic(points: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return weight (axes, classes) and bias of logistic regression; every class has the same weight in the loss."""
    # Products in single precision take half the time; the sums around them keep the digits.
    x, target = points.float().cpu().numpy(), np.eye(classes)[labels.cpu().numpy()]
    counts = target.sum(axis=0).clip(min=1)
    share = (target / (classes * counts)).sum(axis=1, keepdims=True)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient; calls of automatic differentiation would take most of the time."""
        weight, bias = flat[:-classes].reshape(-1, classes), flat[-classes:]
        scores = (x @ weight.astype(np.float32)).astype(np.float64) + bias
        scores -= scores.max(axis=1, keepdims=True)
        likelihood = np.exp(scores)
        total = likelihood.sum(axis=1, keepdims=True)
        misfit = np.log(total) - (scores * target).sum(axis=1, keepdims=True)
        error = share * (likelihood / total - target)
        value = (share * misfit).sum() + LOGISTIC_PENALTY / 2 * np.square(weight).sum()
        slope = x.T @ error.astype(np.float32) + LOGISTIC_PENALTY * weight
        return float(value), np.append(slope, error.sum(axis=0))

    start = np.zeros((x.shape[1] + 1) * classes)
    found = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": LOGISTIC_ITERATIONS, "maxcor": 10, "gtol": LOGISTIC_SLOPE, "ftol": 1e-12},
    ).x
    weight, bias = torch.from_numpy(found[:-classes]).reshape(-1, classes), torch.from_numpy(found[-classes:])
    return weight.to(points), bias.to(points)


def fit_kernel(head: KernelHead, space: FeatureSpace, labels: Tensor, centre: Tensor) -> None:
    """Fit a kernel classifier to training features; ``centre`` is the healthy machine of its ensemble."""
    variance = space.points.square().mean(dim=0)
    order = variance.argsort(descending=True)[: head.axes.shape[1]]
    count = len(order)
    # The same draws for every model, so that a training can be repeated.
    generator = torch.Generator().manual_seed(0)
    frequencies = torch.randn(head.frequencies.shape, generator=generator) * (2 * KERNEL_GAMMA) ** 0.5
    offset = torch.rand(head.offset.shape, generator=generator) * 2 * torch.pi
    head.axes.zero_()[:, :count] = (space.axes[:, order] / space.scale[:, None]).to(head.axes)
    head.frequencies.copy_(frequencies)
    head.offset.copy_(offset.to(head.offset))
    # What the head computes from features relative to the healthy machine, without the product of all of them.
    projected = space.points.new_zeros(len(space.points), head.axes.shape[1])
    projected[:, :count] = space.points[:, order] + (space.centre - centre) / space.scale @ space.axes[:, order]
    weight, bias = fit_logistic(head.waves(projected.to(head.axes)).double(), labels, len(head.bias))
    head.weight.copy_(weight.T)
    head.bias.copy_(bias)


def fit_lda(points: Tensor, labels: Tensor, recordings: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return weight (axes, classes) and bias of linear discriminant analysis with a shrunk covariance.

    The covariance is that of windows about the mean of their recording, plus that of recordings about the mean of their
    class: the class means come from few recordings, however many windows each has.
    """
    numbers, place = torch.unique(recordings, return_inverse=True)
    of_recording = _means(points, place, len(numbers))
    label = torch.zeros(len(numbers), dtype=torch.long, device=points.device).scatter(0, place, labels)
    of_class = _means(of_recording, label, classes)
    within, between = points - of_recording[place], of_recording - of_class[label]
    covariance = within.T @ within / len(points) + between.T @ between / max(1, len(numbers) - classes)
    level = covariance.diagonal().mean().clamp(min=1e-12)
    covariance = (1 - LDA_SHRINKAGE) * covariance
    covariance.diagonal().add_(LDA_SHRINKAGE * level)
    weight = torch.linalg.solve(covariance, of_class.T)
    return weight, -0.5 * (of_class.T * weight).sum(dim=0)


def _means(points: Tensor, group: Tensor, groups: int) -> Tensor:
    sums = points.new_zeros(groups, points.shape[1]).index_add(0, group, points)
    return sums / torch.bincount(group, minlength=groups).clamp(min=1)[:, None]
