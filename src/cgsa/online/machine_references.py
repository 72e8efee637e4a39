"""Healthy references of one machine, each at the operating condition at which it was taken.

What a reference corrects may depend on the condition. Where conditions are known,
several references are held, and a window uses the one at the nearest condition.
A reference without a known condition is the only one, and all windows use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

MAX_REFERENCES = 16
"""References that are kept; the oldest is discarded."""
SAME_CONDITION = 0.1
"""Difference of conditions, as a share of the range of the training, within which a reference replaces another."""


@dataclass(frozen=True, eq=False)
class MachineReferences:
    """The references of a machine, oldest first."""

    shifts: Tensor
    """(references, members, classes): what is taken off the scores; 0 where the model needs no correction."""
    distances: Tensor
    """(references,): distance of each healthy start from the training data."""
    conditions: Tensor
    """(references, conditions): where each was taken, NaN where unknown."""
    starts: Tensor
    """(references, features): mean features of each healthy start; NaN for a reference from a history, which keeps
    none."""

    @classmethod
    def empty(cls, members: int, classes: int, conditions: int, features: int, device: torch.device) -> Self:
        """Return no references."""
        where = torch.zeros(0, conditions, dtype=torch.float64, device=device)
        return cls(
            torch.zeros(0, members, classes, device=device),
            torch.zeros(0, device=device),
            where,
            torch.zeros(0, features, device=device),
        )

    def __len__(self) -> int:
        return len(self.distances)

    @property
    def known_starts(self) -> Tensor:
        """Mean features of the healthy starts that are known, (starts, features)."""
        return self.starts[self.starts.isfinite().all(dim=1) & (self.starts.shape[1] > 0)]

    def with_added(
        self, shift: Tensor, distance: Tensor, conditions: Tensor, start: Tensor, ranges: Tensor
    ) -> MachineReferences:
        """Return the references with one more, which replaces those at the same condition.

        ``conditions`` (conditions,) may be NaN; ``ranges`` has the range of each in training.
        """
        # Where a condition is unknown, references cannot be told apart: the new one replaces all.
        kept = _differences(conditions[None], self.conditions, ranges)[0] > SAME_CONDITION
        new = (shift[None], distance[None], conditions[None], start[None])
        pairs = zip(self.tensors().values(), new, strict=True)
        return MachineReferences(*(torch.cat([old[kept], one])[-MAX_REFERENCES:] for old, one in pairs))

    def nearest(self, conditions: Tensor | None, windows: int, ranges: Tensor) -> Tensor:
        """Return the index of the reference of each window: the nearest, or the newest if nothing tells them apart."""
        newest = len(self) - 1
        if conditions is None or newest == 0:
            return torch.full((windows,), newest, device=self.distances.device)
        # The newest comes first, since the first of equal ones is taken.
        return newest - _differences(conditions, self.conditions.flip(0), ranges).argmin(dim=1)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Return the references whose :meth:`tensors` these are."""
        return cls(**tensors)


def _differences(some: Tensor, others: Tensor, ranges: Tensor) -> Tensor:
    """Return the largest difference between conditions, as a share of their range, (some, others).

    Conditions that are unknown on either side do not count.
    """
    differences = ((some[:, None] - others[None]) / ranges).abs().nan_to_num(nan=0.0)
    return differences.amax(dim=2)
