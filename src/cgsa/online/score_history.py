"""The history of a machine as means over blocks of time, from which a reference can be taken later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from cgsa.errors import DataError
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online.healthy_start import ObservedRows

BLOCKS = 480
"""Blocks that are kept: with the usual length of the history, one per minute."""


@dataclass(frozen=True, eq=False)
class ScoreHistory:
    """The newest blocks of a machine's history, and the block that is not complete yet."""

    blocks: ObservedRows
    """Means, oldest first."""
    times: Tensor
    """(blocks, 2): begin and end of each, in seconds of the stream."""
    newest: ObservedRows
    """Mean of the windows of the incomplete block; no row if there are none."""
    newest_times: Tensor
    """Begin and end of the incomplete block."""
    count: Tensor
    """Windows of the incomplete block."""

    @classmethod
    def empty(cls, nothing: ObservedRows) -> Self:
        """Return a history without blocks, from no rows."""
        device = nothing.distances.device
        times = torch.zeros(0, 2, dtype=torch.float64, device=device)
        return cls(nothing, times, nothing, times.new_zeros(2), torch.zeros((), dtype=torch.int64, device=device))

    def add(self, rows: ObservedRows, begin: float, end: float, block_seconds: float) -> ScoreHistory:
        """Return the history with the windows of one more batch, which begins and ends at these times."""
        closed = self
        # A block must not span a gap that is as long as itself.
        if len(self.newest) and begin > float(self.newest_times[1]) + block_seconds:
            closed = self.close()
        start = float(closed.newest_times[0]) if len(closed.newest) else begin
        total = int(closed.count) + len(rows)
        mean = rows.mean()
        if len(closed.newest):
            share = len(rows) / total
            before = closed.newest.tensors()
            mean = ObservedRows(
                **{name: before[name] + share * (new - before[name]) for name, new in mean.tensors().items()}
            )
        times = closed.newest_times.new_tensor([start, end])
        added = replace(closed, newest=mean, newest_times=times, count=torch.full_like(closed.count, total))
        return added.close() if end - start >= block_seconds else added

    def between(self, begin: float, end: float) -> ObservedRows:
        """Return the blocks that lie within an interval, or say which interval the history covers."""
        inside = (self.times[:, 0] >= begin) & (self.times[:, 1] <= end)
        if not bool(inside.any()):
            if not len(self.times):
                raise DataError("the history has no complete block yet; try again later, or repeat the commissioning")
            first, last = float(self.times[0, 0]), float(self.times[-1, 1])
            longest = float((self.times[:, 1] - self.times[:, 0]).max())
            raise DataError(
                f"no block of the history lies within {begin:.1f} to {end:.1f} s; it reaches from {first:.1f} to "
                f"{last:.1f} s in blocks of up to {longest:.1f} s"
            )
        return self.blocks[inside]

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {
            "times": self.times,
            "newest_times": self.newest_times,
            "count": self.count,
            **add_prefix("blocks", self.blocks.tensors()),
            **add_prefix("newest", self.newest.tensors()),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Return the history whose :meth:`tensors` these are."""
        blocks, newest = (ObservedRows(**select_prefix(part, tensors)) for part in ("blocks", "newest"))
        return cls(blocks, tensors["times"], newest, tensors["newest_times"], tensors["count"])

    def close(self) -> ScoreHistory:
        """Return the history with the incomplete block as its newest complete one."""
        return ScoreHistory(
            self.blocks.followed_by(self.newest)[-BLOCKS:],
            torch.cat([self.times, self.newest_times[None]])[-BLOCKS:],
            self.newest[:0],
            torch.zeros_like(self.newest_times),
            torch.zeros_like(self.count),
        )
