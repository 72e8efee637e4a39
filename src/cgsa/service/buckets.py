"""How often somebody may do something: a bucket each, that leaks in and is drawn from."""

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
        Draws a second in the long run.
    burst
        Draws at once, after a rest.
    most
        Keys that are remembered; the one not seen for longest is forgotten, as if it had rested.
    clock
        In seconds; tests bring their own.
    """

    def __init__(
        self, rate: float, burst: float, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.most = rate, burst, most
        self._clock = clock
        self._filled: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Of each key: what was in its bucket, and when."""
        self._lock = Lock()

    def draw(self, key: Hashable) -> bool:
        """Take one out of a bucket; return whether there was one."""
        now = self._clock()
        with self._lock:
            level = self._level(key, now)
            drawn = level >= 1.0
            self._filled[key] = (level - drawn, now)
            self._filled.move_to_end(key)
            if len(self._filled) > self.most:
                self._filled.popitem(last=False)
        return drawn

    def empty(self, key: Hashable) -> bool:
        """Return whether nothing could be drawn just now; draws nothing."""
        with self._lock:
            return self._level(key, self._clock()) < 1.0

    def wait(self, key: Hashable) -> float:
        """Return the seconds until something can be drawn again."""
        with self._lock:
            return max(0.0, (1.0 - self._level(key, self._clock())) / self.rate)

    def _level(self, key: Hashable, now: float) -> float:
        level, then = self._filled.get(key, (self.burst, now))
        return min(self.burst, level + (now - then) * self.rate)
