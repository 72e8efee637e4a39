"""Reads of the store and of saved states: a few at a time, fairly shared, with a budget of time per token.

A read of a long interval takes seconds of a thread, and holds up what else Python does. Without limits, one reader
occupies all threads that accept blocks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from cgsa.service.buckets import TokenBuckets
from cgsa.service.errors import RefusedError
from cgsa.service.limits import RequestLimits
from cgsa.service.rights import NotAllowedError

MAX_QUEUED = 16
"""Reads of one token that wait or run; one more is refused."""


@dataclass(eq=False)
class _Reader:
    slots: asyncio.Semaphore
    present: int = 0
    """Reads that wait or run."""


class ReadPool:
    """Places for reads; used in one event loop."""

    def __init__(self, limits: RequestLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._slots = asyncio.Semaphore(limits.reads)
        self._budget = TokenBuckets(limits.read_share, limits.read_burst, clock=clock)
        self._readers: dict[str, _Reader] = {}

    @asynccontextmanager
    async def slot(self, name: str) -> AsyncIterator[None]:
        """Wait for a place for one read of a token, and count its duration; refuse it if the token reads too much."""
        wait = self._budget.wait(name, 0.0)
        if wait > 0:
            raise NotAllowedError(f"{name} has used up its time for reading; slow down", 429, retry_after=wait)
        reader = self._readers.setdefault(name, _Reader(asyncio.Semaphore(self._limits.token_reads)))
        if reader.present >= MAX_QUEUED:
            raise NotAllowedError(f"{MAX_QUEUED} requests of {name} wait already; slow down", 429, retry_after=1.0)
        reader.present += 1
        try:
            async with AsyncExitStack() as stack:
                await self._wait_for_turn(stack, reader)
                begun = self._clock()
                try:
                    yield
                finally:
                    self._budget.spend(name, self._clock() - begun)
        finally:
            reader.present -= 1
            if not reader.present:
                del self._readers[name]

    async def _wait_for_turn(self, stack: AsyncExitStack, reader: _Reader) -> None:
        try:
            async with asyncio.timeout(self._limits.read_wait):
                # Its own turn first, so that the reads of one token never wait in places that others need.
                await stack.enter_async_context(reader.slots)
                await stack.enter_async_context(self._slots)
        except TimeoutError:
            raise RefusedError(503, "too many reads at the same time", retry_after=1.0) from None
