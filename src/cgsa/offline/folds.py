"""Which training windows are held out together to evaluate a model on them.

Each level of every condition is held out in turn, and so is the latest part of
every segment: a model may fail at a condition that it has seen, only because
time has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from cgsa.data.windows import Windows
from cgsa.errors import DataError

LEVEL_GAP = 0.01
"""A gap of this share of the range separates two levels."""
MAX_LEVELS = 12
"""More levels than this are a continuous change, sampled at few points."""
MAX_LEVEL_SPREAD = 0.05
"""Values that spread over more of the range are not a level that was held, but part of a continuous change."""
CONTINUOUS_PARTS = 5
"""A continuous change is divided into this many parts of its range."""
LATEST_SHARE = 0.25
"""Share of every segment that is held out once, to see the effect of time alone."""
MAX_DISTANCE = 0.5
"""A level farther from the others than this share of their range is too far to represent a realistic stream."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Windows that are held out together: one level of a condition, or the latest part of every segment."""

    name: str
    """Such as ``level 1 of 3``."""
    held_out: Tensor
    """Mask of the windows that are held out."""
    rest: Tensor
    """Mask of the windows that share nothing with them."""
    interior: bool = False
    """Whether there are levels on both sides of this one."""
    near: bool = False
    """Whether this level is near the range of the others."""
    latest: bool = False
    """Whether this is the latest part of every segment rather than a level."""


def condition_folds(windows: Windows, conditions: Sequence[str]) -> list[Fold]:
    """Return a fold for every level of each condition that has more than one."""
    if windows.conditions is None:
        raise DataError("calibration leaves out conditions, and these windows have none")
    folds = []
    for name, measured in zip(conditions, windows.conditions.unbind(dim=1), strict=True):
        levels = condition_levels(measured)
        count = int(levels.max()) + 1
        near = near_others([float(measured[levels == level].mean()) for level in range(count)])
        of_condition = f" of {name}" if len(conditions) > 1 else ""
        folds += [
            Fold(
                f"level {level + 1} of {count}{of_condition}",
                held_out=levels == level,
                rest=levels != level,
                interior=0 < level < count - 1,
                near=near[level],
            )
            for level in range(count if count > 1 else 0)
        ]
    return folds


def latest_fold(windows: Windows) -> Fold:
    """Return the last quarter of every segment; no window of the rest overlaps it."""
    begins, length = windows.starts, windows.spec.length
    borders = torch.zeros_like(begins, dtype=torch.float64)
    for segment in sorted(set(windows.segments.tolist())):
        own = windows.segments == segment
        first, end = begins[own].min(), begins[own].max() + length
        borders[own] = first + (1 - LATEST_SHARE) * (end - first)
    return Fold("the last quarter", begins >= borders, begins + length <= borders, latest=True)


def condition_levels(measured: Tensor) -> Tensor:
    """Return the number of the level of every value of a condition, from the lowest to the highest."""
    ordered = measured.double().sort().values
    extent = ordered[-1] - ordered[0]
    gaps = torch.nonzero(ordered.diff() > LEVEL_GAP * extent).squeeze(1)
    begins, ends = pad(gaps + 1, (1, 0)), pad(gaps, (0, 1), value=len(ordered) - 1)
    held = bool((ordered[ends] - ordered[begins] <= MAX_LEVEL_SPREAD * extent).all())
    if not held or len(begins) > MAX_LEVELS:
        # Parts of equal range, not of equal size: where a value was held for long, a part of equal size would be a
        # slice of its noise, and a machine that held it slightly higher or lower would have no window there.
        borders = ordered[0] + extent * torch.arange(1, CONTINUOUS_PARTS, device=ordered.device) / CONTINUOUS_PARTS
    else:
        borders = (ordered[gaps] + ordered[gaps + 1]) / 2
    numbers = torch.bucketize(measured.double(), borders)
    dense: Tensor = torch.unique(numbers, return_inverse=True)[1]
    return dense


def near_others(levels: Sequence[float]) -> list[bool]:
    """Return which levels are between others, or no farther outside than half the range of the others."""
    if len(levels) < 3:
        return [True] * len(levels)
    low, high = MAX_DISTANCE * (levels[-1] - levels[1]), MAX_DISTANCE * (levels[-2] - levels[0])
    return [levels[1] - levels[0] <= low, *[True] * (len(levels) - 2), levels[-1] - levels[-2] <= high]
