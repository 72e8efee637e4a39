"""Weights of the members of an ensemble, from conditions, units and runs that were held out.

The member that is best where it was held out is often not the best elsewhere, and
the plain average of all is hard to beat. So the weights start equal and move only
as far as the held-out recordings insist.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.nn.ensemble import combine, member_votes, weigh

EVIDENCE = 4.0
"""How many held-out recordings it takes to move the weights: their logarithms are drawn to equal ones as strongly as by
this many recordings."""
LABEL_SMOOTHING = 0.003
"""Share of mistakes that is assumed even where none was seen, so that no probability becomes certain."""
ITERATIONS = 100
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
    # Votes do not depend on the weights, so they are computed once, not in every iteration.
    members, votes = scores.shape[1], member_votes(scores.double())
    share, count = _shares(recordings)
    preference = torch.zeros(members, dtype=torch.float64, device=scores.device, requires_grad=True)
    scale = torch.zeros(1, dtype=torch.float64, device=scores.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([preference, scale], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        relative = torch.log_softmax(preference, dim=0)
        pooled = weigh(votes, (relative + scale).exp())
        misfit = cross_entropy(pooled, labels, reduction="none", label_smoothing=LABEL_SMOOTHING)
        away = (relative + torch.log(torch.tensor(float(members)))).square().mean()
        value = (share * misfit).sum() + evidence / count * away
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return (torch.log_softmax(preference, dim=0) + scale).exp().detach()


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
