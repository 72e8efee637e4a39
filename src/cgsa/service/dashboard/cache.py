"""Values that many pages show and one thread computes.

Pages refresh every second. However many of them are open, a value is computed at most once in its lifetime, in a
thread, and only while a page requests it: the event loop never waits for the store, and hidden pages cost nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

DROP_AFTER = 60.0
"""Seconds after which a value that no page requested is dropped."""


@dataclass
class _Computation:
    task: asyncio.Task[Any]
    started: float
    requested: float
    """Time of the last request."""

    @property
    def failed(self) -> bool:
        return self.task.cancelled() or self.task.exception() is not None


class ValueCache:
    """Shared values by key; those that no page requests are dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[Hashable, _Computation] = {}

    def __len__(self) -> int:
        return len(self._found)

    def drop(self, key: Hashable) -> None:
        """Compute the value of a key anew when it is requested next."""
        self._found.pop(key, None)

    async def get(self, key: Hashable, compute: Callable[[], T], lifetime: float = 0.9) -> T:
        """Return the value of a key; all who request it while it is computed wait for the same computation.

        A computation that fails raises its error for all who wait for it; the next request tries again.
        """
        now = self._clock()
        found = self._found.get(key)
        if found is None or (found.task.done() and (found.failed or now - found.started >= lifetime)):
            found = _Computation(asyncio.create_task(asyncio.to_thread(compute)), now, now)
            self._found = {name: one for name, one in self._found.items() if now - one.requested <= DROP_AFTER}
            self._found[key] = found
        found.requested = now
        # A page that is closed while it waits must not cancel the computation for the others.
        value: T = await asyncio.shield(found.task)
        return value
