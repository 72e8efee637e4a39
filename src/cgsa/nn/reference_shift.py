"""How far the scores of an ensemble are shifted by the healthy reference of a machine: as little as suffices."""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.nn.ensemble import combine

SHARES = (0.5, 0.75, 1.0)
"""Shares of the difference to the machine's reference that may be taken off; the least one that suffices is used."""
EVIDENT = 0.1
"""Probability of health below which the model is evidently wrong about a healthy span."""


def needed_shift(span: Tensor, healthy: Tensor, pool: Tensor, *, confirmed: bool = False) -> Tensor:
    """Return what to take off the scores of a machine, (members, classes); zeros if its healthy span looks healthy.

    Parameters
    ----------
    span
        Scores of windows of the healthy machine, (windows, members, classes).
    healthy
        Scores of the mean healthy machine of the training, (members, classes).
    pool
        Weights of the members.
    confirmed
        Whether a person has confirmed this very span. If not, the model must be evidently wrong about it: where it only
        doubts, a reference costs as often as it helps.
    """
    reference = span.median(dim=0).values - healthy
    votes = mean_votes(span, pool)
    needed = votes.argmax() != 0 if confirmed else torch.softmax(votes, dim=0)[0] < EVIDENT
    if not bool(needed):
        return torch.zeros_like(reference)
    shifts = [share * reference for share in SHARES]
    return next((shift for shift in shifts if appears_healthy(span - shift, pool)), shifts[-1])


def appears_healthy(scores: Tensor, pool: Tensor) -> bool:
    """Return whether windows look healthy on average."""
    return bool(mean_votes(scores, pool).argmax() == 0)


def mean_votes(scores: Tensor, pool: Tensor) -> Tensor:
    """Return the mean log-probability of each class."""
    return torch.log_softmax(combine(scores, pool), dim=1).mean(dim=0)
