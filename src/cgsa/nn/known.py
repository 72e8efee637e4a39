"""Whether windows come from the machine that an ensemble was trained on, or what they look like instead.

A *check* is a direction in the space of all features: from genuine windows, at 0,
to an imitation of one cause, at 1, such as white noise or two swapped channels.
Training makes the imitations from its own recordings and places the limit of each
check between them and genuine windows of conditions that were held out. If no
direction separates them there, trees decide, provided that they do. All directions
together span a space in which held-out windows fill a known volume. A window
outside of it is unlike the machine in some other way: another machine, another
sensor or an unknown fault. If the sensor has a static offset, such as gravity, that
is compared, too (:mod:`cgsa.nn.offset`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from cgsa.config import stored_if_given
from cgsa.errors import ConfigError
from cgsa.nn.offset import OffsetCheck, OffsetConfig
from cgsa.nn.trees import TreeHead

DISTANCE, QUESTION = "distance", "question"
"""Names of the evidence: how far a window is from what is known, and the number of the question that it raises."""
UNLIKE = "unlike everything in training: another machine or sensor, or an unknown fault?"
MAX_CHECKS = 256
LEAST_RATIO = 1e-6
NEVER = 1e30
"""Limit that no score reaches."""


@dataclass(frozen=True)
class KnownConfig:
    """The checks of a model."""

    questions: tuple[str, ...]
    """What to ask if a window looks like the imitation of each check."""
    unnoticed: tuple[str, ...] = ()
    """Imitations that are too close to genuine windows of held-out conditions to be noticed."""
    by_trees: tuple[int, ...] = ()
    """Checks, counted from 0, that trees decide instead of a direction."""
    offset: OffsetConfig | None = field(default=None, metadata=stored_if_given())
    """Comparison of static offsets; None if the sensor has none."""

    def __post_init__(self) -> None:
        if not 0 < len(self.questions) <= MAX_CHECKS:
            raise ConfigError(f"{len(self.questions)} checks of the signal; expected 1 to {MAX_CHECKS}")
        if not set(self.by_trees) <= set(range(len(self.questions))) or sorted(set(self.by_trees)) != [*self.by_trees]:
            raise ConfigError(
                f"trees decide checks {list(self.by_trees)}; expected different numbers from 0 to "
                f"{len(self.questions) - 1}, in order"
            )

    def question(self, number: int) -> str | None:
        """Return the text of a question; None for number 0, which is none."""
        own = (None, *self.questions, UNLIKE)
        return own[number] if number < len(own) or self.offset is None else self.offset.question(number - len(own))


class KnownCheck(nn.Module):
    """How far windows are from what is known, and which question they raise."""

    centre: Tensor
    """Mean features of the training, (features,)."""
    weight: Tensor
    """Direction of each check, (checks, features)."""
    limits: Tensor
    """Score at which each check alone finds a window; ``NEVER`` if the check cannot, (checks,)."""
    mean: Tensor
    """Mean score of held-out windows, (checks,)."""
    whitening: Tensor
    """Makes scores about their mean uncorrelated, (checks, checks); their mean square is 1 at the limit."""
    imitations: Tensor
    """Mean whitened scores of every imitation, (imitations, checks)."""
    usual: Tensor
    """Usual share of the limit that held-out windows reach."""

    def __init__(self, config: KnownConfig, inputs: int) -> None:
        super().__init__()
        checks = len(config.questions)
        self.register_buffer("centre", torch.zeros(inputs))
        self.register_buffer("weight", torch.zeros(checks, inputs))
        self.register_buffer("limits", torch.ones(checks))
        self.register_buffer("mean", torch.zeros(checks))
        self.register_buffer("whitening", torch.eye(checks))
        self.register_buffer("imitations", torch.zeros(checks, checks))
        self.register_buffer("usual", torch.ones(()))
        self.by_trees = list(config.by_trees)
        self.trees = TreeHead(1 + len(self.by_trees)) if self.by_trees else None
        self.offset = None if config.offset is None else OffsetCheck(config.offset)

    @torch.no_grad()
    def forward(self, features: Sequence[Tensor], means: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return distance and number of the question of windows.

        ``features`` has one tensor for each kind, ``means`` the mean of every channel, (windows, channels). Means count
        only if the sensor has a static offset.
        The distance is about 1 within training. At ``1 / usual`` it reaches the limit, and a question is raised.
        """
        relative = torch.cat(list(features), dim=1) - self.centre
        scores = linear(relative, self.weight)
        whitened = (scores - self.mean) @ self.whitening
        direct = torch.ones_like(self.limits, dtype=torch.bool)
        if self.trees is not None:
            scores[:, self.by_trees] = imitation_shares(self.trees(relative))
            direct[self.by_trees] = False
        alone, together = scores / self.limits, whitened.square().mean(dim=1).sqrt()
        ratio = torch.maximum(alone.amax(dim=1), together).clamp(min=LEAST_RATIO)
        # Of the checks beyond their limits, the one whose imitation is nearest, if it is nearer than genuine windows.
        gaps = (whitened[:, None] - self.imitations).norm(dim=2)
        gaps = torch.where(direct & (gaps >= whitened.norm(dim=1)[:, None]), torch.inf, gaps)
        nearest, cause = gaps.masked_fill(alone <= 1, torch.inf).min(dim=1)
        cause = torch.where(nearest < torch.inf, cause + 1, len(self.limits) + 1)
        question = torch.where(ratio > 1, cause, 0)
        if self.offset is not None and means is not None:
            # An offset says more surely than a spectrum what is wrong with the sensor.
            of_offset, named = self.offset(means)
            question = torch.where(of_offset > 1, len(self.limits) + 2 + named, question)
            ratio = torch.maximum(ratio, of_offset)
        return ratio / self.usual, question

    def evidence(self, features: Sequence[Tensor], x: Tensor) -> dict[str, Tensor]:
        """Return the same as evidence of an online method; ``x`` has the raw windows, (windows, channels, length)."""
        distance, question = self(features, None if self.offset is None else x.mean(dim=2))
        return {DISTANCE: distance, QUESTION: question}


def imitation_shares(scores: Tensor) -> Tensor:
    """Return the share of each imitation against genuine windows, from tree scores whose first class is genuine."""
    return torch.sigmoid(scores[:, 1:] - scores[:, :1])
