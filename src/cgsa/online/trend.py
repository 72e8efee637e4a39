"""The trend of a score: means over blocks of time, and the robust slope through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

BLOCKS = 96
"""Blocks that are kept."""
MIN_BLOCKS = 4
"""Blocks before there is a slope."""
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, eq=False)
class Trend:
    """The newest blocks of a score over time, oldest first, and the block that is not complete yet."""

    times: Tensor
    """Middle of each block, in seconds of the stream."""
    values: Tensor
    """Mean score of each block."""
    newest: Tensor
    """Begin and end of the incomplete block, and the sum and number of its scores."""

    @classmethod
    def empty(cls, device: torch.device) -> Self:
        """Return a trend without blocks."""
        none = torch.zeros(0, dtype=torch.float64, device=device)
        return cls(none, none, none.new_zeros(4))

    def add(self, scores: Tensor, begin: float, end: float, block_seconds: float) -> Trend:
        """Return the trend with the scores of one more batch, which begins and ends at these times."""
        start, until, total, count = self.newest.tolist()
        # A block must not span a gap that is as long as itself.
        closed = self.close() if count and begin > until + block_seconds else self
        start, _, total, count = closed.newest.tolist()
        values = (start if count else begin, end, total + float(scores.double().sum()), count + len(scores))
        added = Trend(closed.times, closed.values, closed.newest.new_tensor(values))
        return added.close() if end - values[0] >= block_seconds else added

    def close(self) -> Trend:
        """Return the trend with the incomplete block as its newest complete one."""
        begin, end, total, count = self.newest
        times = torch.cat([self.times, ((begin + end) / 2)[None]])[-BLOCKS:]
        values = torch.cat([self.values, (total / count)[None]])[-BLOCKS:]
        return Trend(times, values, torch.zeros_like(self.newest))

    def per_hour(self) -> float | None:
        """Return the slope per hour: the median of the slopes of all pairs of blocks (Theil and Sen); None at first."""
        if len(self.times) < MIN_BLOCKS:
            return None
        first, second = torch.triu_indices(len(self.times), len(self.times), offset=1, device=self.times.device)
        slopes = (self.values[second] - self.values[first]) / (self.times[second] - self.times[first])
        return float(slopes.median()) * SECONDS_PER_HOUR

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Return the trend whose :meth:`tensors` these are."""
        return cls(**tensors)
