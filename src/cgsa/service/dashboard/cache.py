"""Values that many pages show and one thread computes.

Pages refresh every second. However many of them are open, a value is computed at most once in its lifetime, in a
thread, and only while a page requests it: the event loop never waits for the store, and hidden pages cost nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

DROP_AFTER = 60.0
"""Seconds after which a value that no page requested is dropped."""


class CachedValue(Generic[T]):
    """One value, computed again if it is requested after its lifetime.

    Parameters
    ----------
    compute
        Computes it, in a thread.
    lifetime
        Seconds for which it is valid.
    clock
        Monotonic clock.
    """

    def __init__(self, compute: Callable[[], T], lifetime: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._compute = compute
        self._lifetime = lifetime
        self._clock = clock
        self._task: asyncio.Task[T] | None = None
        self._started = 0.0
        self.last_requested = clock()

    async def get(self) -> T:
        """Return the value; all who request it while it is computed wait for the same computation.

        A computation that fails raises its error for all who wait for it; the next request tries again.
        """
        self.last_requested = self._clock()
        if self._task is None or (self._task.done() and (_failed(self._task) or self._expired)):
            self._started = self.last_requested
            self._task = asyncio.create_task(asyncio.to_thread(self._compute))
        # A page that is closed while it waits must not cancel the computation for the others.
        return await asyncio.shield(self._task)

    @property
    def _expired(self) -> bool:
        return self.last_requested - self._started >= self._lifetime


class ValueCache:
    """Shared values by key; those that no page requests are dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[Hashable, CachedValue[Any]] = {}

    def __len__(self) -> int:
        return len(self._values)

    async def get(self, key: Hashable, compute: Callable[[], T], lifetime: float = 0.9) -> T:
        """Return the value of a key; ``compute`` and ``lifetime`` of the first request count."""
        if key not in self._values:
            oldest = self._clock() - DROP_AFTER
            self._values = {name: value for name, value in self._values.items() if value.last_requested >= oldest}
            self._values[key] = CachedValue(compute, lifetime, self._clock)
        value: CachedValue[T] = self._values[key]
        return await value.get()


def _failed(task: asyncio.Task[T]) -> bool:
    return task.cancelled() or task.exception() is not None
