"""The newest signal of a machine in memory, for whoever looks at it beside the diagnosis."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Lock

import numpy as np

from cgsa.data.recording import Recording
from cgsa.live.intake.block import Block

RECENT_SECONDS = 3.0


class RecentSignal:
    """Keeps the newest blocks in use; one thread adds them, and any thread may read."""

    def __init__(self, seconds: float = RECENT_SECONDS) -> None:
        self._most = seconds
        self._blocks: deque[Block] = deque()
        self._seconds = 0.0
        self._lock = Lock()

    def add(self, block: Block) -> None:
        """Add the next block; one that does not continue the last begins a new signal."""
        with self._lock:
            if self._blocks and not _continues(self._blocks[-1], block):
                self._blocks.clear()
                self._seconds = 0.0
            self._blocks.append(block)
            self._seconds += block.seconds
            while self._seconds - self._blocks[0].seconds >= self._most:
                self._seconds -= self._blocks.popleft().seconds

    def recording(self, units: Mapping[str, str]) -> tuple[float, Recording] | None:
        """Return the time of the first sample and the signal; None before the first block."""
        with self._lock:
            blocks = tuple(self._blocks)
        if not blocks:
            return None
        first = blocks[0]
        signal = np.concatenate([one.samples for one in blocks], axis=1)
        counts = [one.count for one in blocks]
        names = set.intersection(*(set(one.conditions) for one in blocks))
        conditions = {
            name: np.repeat(np.array([one.conditions[name] for one in blocks], np.float32), counts) for name in names
        }
        # A sensor fault leaves gaps; what stands beside the diagnosis shows the rest.
        signal = np.nan_to_num(signal, posinf=0.0, neginf=0.0)
        own = tuple(units.get(name, "") for name in first.channels)
        return first.time, Recording(signal, first.sample_rate, first.channels, own, conditions, source=first.machine)


def _continues(last: Block, block: Block) -> bool:
    same = last.channels == block.channels and last.sample_rate == block.sample_rate
    return same and block.sequence == last.sequence + 1
