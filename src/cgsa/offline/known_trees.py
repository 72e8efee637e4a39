"""Trees for the imitations that no direction separates from genuine windows of held-out conditions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cgsa.nn.known import NEVER, imitation_shares
from cgsa.nn.trees import TreeHead
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.trees import fit_trees

MAX_GENUINE = 400
"""Genuine windows to which trees are fitted: neighbours are nearly the same."""
KNOWN_SHARE, FOUND_SHARE = 0.999, 0.95
"""Share of the held-out genuine windows below all limits, and of the held-out imitations above a limit halfway."""
LEAST_FOUND_SHARE = 0.5
"""Least share of the held-out imitations that a check must find: a question is asked if most windows of a batch ask."""


def fit_check_trees(head: TreeHead, genuine: Tensor, imitated: Tensor) -> None:
    """Fit trees to genuine windows (windows, features) and to imitations (windows, imitations, features)."""
    some = genuine[evenly_spaced(len(genuine), MAX_GENUINE, genuine.device)]
    labels = 1 + torch.arange(imitated.shape[1], device=genuine.device).repeat(len(imitated))
    fit_trees(head, torch.cat([some, imitated.flatten(0, 1)]), torch.cat([labels.new_zeros(len(some)), labels]))


def held_out_shares(
    genuine: Tensor, imitated: Tensor, genuine_out: Tensor, imitated_out: Tensor, checks: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return the shares of some imitations in the leaves that windows reach, by trees that were fitted to others.

    Parameters
    ----------
    genuine, imitated
        Windows of the fit, (windows, features) and (windows, imitations, features).
    genuine_out, imitated_out
        Windows that were held out, likewise.
    checks
        Imitations to which the trees are fitted.

    Returns
    -------
    tuple of Tensor
        (windows, checks) of the genuine and (windows, imitations, checks) of the imitated windows.
    """
    head = TreeHead(1 + len(checks)).to(genuine)
    fit_check_trees(head, genuine, imitated[:, checks])
    own = imitation_shares(head(imitated_out.flatten(0, 1)))
    return imitation_shares(head(genuine_out)).double(), own.reshape(*imitated_out.shape[:2], -1).double()


def tree_limits(genuine: Tensor, own: Tensor) -> Tensor:
    """Return the limit of the share of each imitation; ``NEVER`` if trees find too few of the imitations.

    Parameters
    ----------
    genuine
        Shares of held-out genuine windows, (windows, checks).
    own
        Shares of held-out imitations by the check of each, (windows, checks).
    """
    below = torch.quantile(genuine, KNOWN_SHARE, dim=0)
    # Several checks together must not call more genuine windows unknown than a single one.
    below = below * torch.quantile((genuine / below).amax(dim=1), KNOWN_SHARE)
    above = torch.quantile(own, 1 - FOUND_SHARE, dim=0)
    limits = torch.maximum(below, (below + above) / 2)
    return torch.where((own > limits).double().mean(dim=0) >= LEAST_FOUND_SHARE, limits, NEVER)
