"""Values that many pages look at and one thread makes.

Pages ask every second. However many of them are open, a value is made at most
once in its time, in a thread, and only while somebody asks for it: the event
loop never waits for the store, and nothing runs for pages that nobody sees.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

FORGOTTEN_AFTER = 60.0
"""Seconds after which a value that nobody asked for is dropped."""


class CachedValue(Generic[T]):
    """One value, made anew when it is asked for and too old.

    Parameters
    ----------
    make
        Makes it, in a thread.
    seconds
        How long it is good.
    clock
        Tells how old it is.
    """

    def __init__(self, make: Callable[[], T], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._task: asyncio.Task[T] | None = None
        self._begun = 0.0
        self.asked = clock()
        """When somebody last wanted it."""

    async def get(self) -> T:
        """Return the value; all who ask while it is being made wait for the same."""
        self.asked = self._clock()
        if self._task is None or (self._task.done() and self.asked - self._begun >= self._seconds):
            self._begun = self.asked
            self._task = asyncio.create_task(asyncio.to_thread(self._make))
        # A page that is closed while it waits must not take the value from the others.
        return await asyncio.shield(self._task)


class ValueCache:
    """Shared values by their keys; those that nobody asks for are dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[Hashable, CachedValue[Any]] = {}

    def __len__(self) -> int:
        return len(self._values)

    async def get(self, key: Hashable, make: Callable[[], T], seconds: float = 0.9) -> T:
        """Return the value of a key; ``make`` and ``seconds`` hold for the first who asks for it."""
        if key not in self._values:
            now = self._clock()
            old = [name for name, value in self._values.items() if now - value.asked > FORGOTTEN_AFTER]
            for name in old:
                del self._values[name]
            self._values[key] = CachedValue(make, seconds, self._clock)
        value: CachedValue[T] = self._values[key]
        return await value.get()
