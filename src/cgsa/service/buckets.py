"""Rate limits: a token bucket per key.

Written here because no dependency of the service has one with a bounded number of keys.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock


class TokenBuckets:
    """Token buckets by key; usable from any thread, and of bounded size whatever keys come.

    Parameters
    ----------
    rate
        Draws per second in the long run.
    burst
        Draws at once after a pause.
    capacity
        Keys remembered; the one not seen for the longest time is dropped, as if its bucket were full.
    """

    def __init__(
        self, rate: float, burst: float, *, capacity: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.capacity = rate, burst, capacity
        self._clock = clock
        self._filled: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Level of each key's bucket, and when it was measured."""
        self._lock = Lock()

    def draw(self, key: Hashable) -> bool:
        """Take one token out of a bucket; return whether there was one."""
        now = self._clock()
        with self._lock:
            level = self._level(key, now)
            drawn = level >= 1.0
            self._store(key, level - drawn, now)
        return drawn

    def empty(self, key: Hashable) -> bool:
        """Return whether a draw would fail now; draws nothing."""
        with self._lock:
            return self._level(key, self._clock()) < 1.0

    def spend(self, key: Hashable, amount: float) -> None:
        """Take an amount out of a bucket whatever it holds; its level may fall below zero."""
        now = self._clock()
        with self._lock:
            self._store(key, self._level(key, now) - amount, now)

    def wait(self, key: Hashable, amount: float = 1.0) -> float:
        """Return the seconds until a bucket holds an amount again."""
        with self._lock:
            return max(0.0, (amount - self._level(key, self._clock())) / self.rate)

    def _store(self, key: Hashable, level: float, now: float) -> None:
        self._filled[key] = (level, now)
        self._filled.move_to_end(key)
        if len(self._filled) > self.capacity:
            self._filled.popitem(last=False)

    def _level(self, key: Hashable, now: float) -> float:
        level, then = self._filled.get(key, (self.burst, now))
        return min(self.burst, level + (now - then) * self.rate)
