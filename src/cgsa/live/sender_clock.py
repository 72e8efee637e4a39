"""Compares the clock of a sender, by the time stamps of its blocks, with that of this computer."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Literal, TypeAlias

BLOCKS = 15
"""Blocks whose median counts: one odd time stamp or one late delivery changes nothing."""
AHEAD_SECONDS = 5.0
"""A block cannot come before it was measured, so that a clock that is ahead is wrong."""
BEHIND_SECONDS = 60.0
"""Networks, brokers and files deliver late, so that only much more than that is reported."""

ClockState: TypeAlias = Literal["right", "ahead", "behind"]


class SenderClock:
    """The clock of the sender of one machine."""

    def __init__(self) -> None:
        self._skews: deque[float] = deque(maxlen=BLOCKS)
        self.state: ClockState = "right"

    @property
    def skew(self) -> float | None:
        """Seconds by which the sender's clock is ahead, less the time that blocks travel; None before the first."""
        found = tuple(self._skews)
        return median(found) if found else None

    def observe(self, end: float, arrival: float) -> str | None:
        """Take note of a block that ends at ``end`` by the sender's clock; return what an operator should know now."""
        # Recordings of the past are behind from the first block on, which is no event.
        first = not self._skews
        self._skews.append(end - arrival)
        skew = self.skew or 0.0
        state, before = self._judge(skew), self.state
        self.state = state
        if state == before or (first and state == "behind"):
            return None
        if state == "right":
            return f"the clock of the sender is right again, to {abs(skew):.1f} s"
        if state == "ahead":
            return f"the clock of the sender is {skew:.1f} s ahead of this computer's; synchronise both"
        return (
            f"blocks arrive {-skew:.1f} s after their time stamps: the clock of the sender is behind, or it sends late"
        )

    def _judge(self, skew: float) -> ClockState:
        """Return the state; a clock counts as right again at half of a limit."""
        ahead, behind = ((0.5 if self.state == state else 1.0) for state in ("ahead", "behind"))
        if skew > ahead * AHEAD_SECONDS:
            return "ahead"
        return "behind" if skew < -behind * BEHIND_SECONDS else "right"
