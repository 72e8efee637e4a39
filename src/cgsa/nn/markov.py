"""Beliefs over states that change rarely: a hidden Markov model with class probabilities as observations."""

from __future__ import annotations

import torch
from torch import Tensor


def transition_matrix(change: float, repair: float, states: int, *, unknown: bool = False) -> Tensor:
    """Return A: health is left with probability ``change``, a fault with ``change * repair``; all targets share it.

    With ``unknown``, the last state is no fault of its own: it turns out to be one of the others as easily as a
    healthy machine becomes faulty, and only its repair is rare.
    """
    leave = torch.full((states,), change * repair, dtype=torch.float64)
    leave[0] = change
    matrix = (leave / (states - 1))[:, None].repeat(1, states)
    if unknown:
        matrix[-1, 1:] = change / (states - 1)
        leave[-1] = matrix[-1, :-1].sum()
    matrix.diagonal().copy_(1 - leave)
    return matrix


def forward_posteriors(start: Tensor, updates: Tensor) -> Tensor:
    """Return the normalised beliefs start M_1 ... M_t after each update, as a parallel scan.

    Updates are multiplied in pairs, and a recursive call on the pairs gives
    every second belief; each of the others is one update further. All numbers
    are positive, so nothing cancels and the pairs only need scaling.

    Parameters
    ----------
    start
        Beliefs before the first update, (chains, states).
    updates
        The matrices M_t, (windows, chains, states, states).
    """
    before = start[None]
    beliefs = start.new_empty(updates.shape[:3])
    if len(updates) > 1:
        pairs = updates[:-1:2] @ updates[1::2]
        beliefs[1::2] = forward_posteriors(start, pairs / pairs.amax(dim=(-2, -1), keepdim=True))
        before = torch.cat([before, beliefs[1:-1:2]])
    beliefs[::2] = normalised((before[:, :, None] @ updates[::2])[:, :, 0])
    return beliefs


def normalised(weights: Tensor) -> Tensor:
    """Scale the rows to sums of one."""
    return weights / weights.sum(dim=-1, keepdim=True)


def backward_messages(updates: Tensor) -> Tensor:
    """Return for each of t = 0 ... n how probable the windows after t are from each state, scaled to a sum of one.

    ``updates`` are the matrices M_1 ... M_n of a single chain, (windows, states, states); the message after t is
    M_{t+1} ... M_n 1, which is a forward pass over the transposed matrices in reverse.
    """
    last = updates.new_full((1, updates.shape[-1]), 1 / updates.shape[-1])
    return torch.cat([forward_posteriors(last, updates.flip(0).mT[:, None])[:, 0].flip(0), last])
