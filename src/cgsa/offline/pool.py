"""Weights of the members of an ensemble, from conditions, units and runs that were held out.

The member that is best where it was held out is often not the best elsewhere, and
the plain average of all is hard to beat. So members are weighted by the likelihood
of the held-out recordings, of which only a part counts as evidence.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.nn.ensemble import combine, member_votes

EVIDENCE = 0.1
"""Share of a held-out recording that counts as evidence: recordings of one machine resemble each other."""
LABEL_SMOOTHING = 0.003
"""Share of mistakes that is assumed even where none was seen, so that no probability becomes certain."""
SCALES = tuple(2.0 ** (step / 8) for step in range(-24, 17))
"""Factors that are tried to calibrate the probabilities."""


def equal_weights(members: int) -> Tensor:
    """Return the weights of the plain average of all members."""
    return torch.full((members,), 1.0 / members, dtype=torch.float64)


def fit_pool(scores: Tensor, labels: Tensor, recordings: Tensor, *, evidence: float = EVIDENCE) -> Tensor:
    """Return the weight of every member, whose sum also calibrates the probabilities.

    Parameters
    ----------
    scores
        Scores of members for windows that were held out of their training, (windows, members, classes).
    labels, recordings
        Class and recording of every window; every recording has the same weight.
    evidence
        See :data:`EVIDENCE`.
    """
    share, count = _shares(recordings)
    votes = member_votes(scores.double())
    wrong = -votes.gather(2, labels[:, None, None].expand(-1, votes.shape[1], 1)).squeeze(2)
    weights = torch.softmax(-evidence * count * (share @ wrong), dim=0)
    return weights * fit_scale(scores, labels, recordings, weights)


def fit_scale(scores: Tensor, labels: Tensor, recordings: Tensor, pool: Tensor) -> float:
    """Return the factor of all weights that calibrates the probabilities, from a grid."""
    share, _ = _shares(recordings)
    pooled = combine(scores.double(), pool)
    losses = [
        float((share * cross_entropy(scale * pooled, labels, reduction="none", label_smoothing=LABEL_SMOOTHING)).sum())
        for scale in SCALES
    ]
    best: float = SCALES[losses.index(min(losses))]
    return best


def _shares(recordings: Tensor) -> tuple[Tensor, int]:
    """Return the weight of every window, the same for each recording, and the number of recordings."""
    _, place, counts = torch.unique(recordings, return_inverse=True, return_counts=True)
    share = (1.0 / counts.double())[place]
    return share / share.sum(), len(counts)
