"""Which spectral lines of which channels changed: prominent peaks that rose or fell against a healthy reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d

REACH = 3
"""Lines to either side within which a peak may have moved, as with a small change of speed."""
LEAST_DECIBELS = 6.0
"""Least change that is named."""
DECIBELS = 10 / log(10)
"""Decibels of a natural logarithm of power."""


@dataclass(frozen=True)
class LineChange:
    """A peak that changed."""

    channel: int
    line: int
    """Index of the line, from 0."""
    decibels: float
    """Positive if it rose."""


def changed_lines(current: Tensor, reference: Tensor, count: int) -> list[LineChange]:
    """Return the peaks whose amplitude changed most, largest first; at most ``count``.

    A peak that rose is compared with the highest line of the reference around it, and one that fell with the highest
    line of now. Amplitudes count relative to the level of their channel, so that a quiet channel is heard, too.

    Parameters
    ----------
    current, reference
        Logarithms of the power of all lines, (channels, lines).
    """
    level = torch.logsumexp(reference, dim=1, keepdim=True) / 2
    rose, fell = _rise(current, reference, level), _rise(reference, current, level)
    size = torch.maximum(rose, fell).flatten()
    best = size.topk(min(count, len(size))).indices
    lines, found = current.shape[1], []
    for place in best[size[best] > 0].tolist():
        channel, line = divmod(place, lines)
        low, high = max(0, line - REACH), line + REACH + 1
        up = bool(rose[channel, line] >= fell[channel, line])
        change = current[channel, line] - reference[channel, low:high].max()
        if not up:
            change = current[channel, low:high].max() - reference[channel, line]
        found.append(LineChange(channel, line, DECIBELS * float(change)))
    return found


def _rise(high: Tensor, low: Tensor, level: Tensor) -> Tensor:
    """Return by how much the amplitude of every peak is above its surroundings in the other spectrum.

    It is 0 where there is no peak, or one that is not clearly higher.
    """
    around = _highest_around(low)
    counts = (high >= _highest_around(high)) & (DECIBELS * (high - around) >= LEAST_DECIBELS)
    return torch.where(counts, torch.exp(high / 2 - level) - torch.exp(around / 2 - level), 0.0)


def _highest_around(spectrum: Tensor) -> Tensor:
    return max_pool1d(spectrum[None], 2 * REACH + 1, stride=1, padding=REACH)[0]
