"""Blocks of machines that can take none at present, while those of the other machines flow on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cgsa.errors import UnavailableError
from cgsa.live.intake.block import Block

MAX_HELD = 10
"""Blocks in memory. A broker stops sending while about twenty messages of any machine are not acknowledged."""
RETRY_SECONDS = 1.0
"""Interval between attempts to deliver the oldest block of a machine."""

Done: TypeAlias = Callable[[], None]
"""Called when a source is done with a block, so that its sender may forget it."""


@dataclass(frozen=True, eq=False)
class HeldBlock:
    """A block that waits, and what to call when it is delivered."""

    block: Block
    done: Done


class HeldBlocks:
    """The blocks that one source holds, in order for each machine.

    ``deliver`` writes a block to the journal of its machine, or raises an :class:`UnavailableError`.
    """

    def __init__(self, deliver: Callable[[Block], Awaitable[None]]) -> None:
        self._deliver = deliver
        self._queues: dict[str, deque[HeldBlock]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._reasons: dict[str, UnavailableError] = {}

    @property
    def reasons(self) -> Mapping[str, UnavailableError]:
        """Why machines with blocks that wait take none."""
        return self._reasons

    @property
    def full(self) -> bool:
        """Whether no more can be held."""
        return sum(map(len, self._queues.values())) >= MAX_HELD

    def add(self, block: Block, done: Done, reason: UnavailableError) -> None:
        """Hold a block, and deliver it when that is possible."""
        machine = block.machine
        self._reasons[machine] = reason
        self._queues.setdefault(machine, deque()).append(HeldBlock(block, done))
        if machine not in self._tasks:
            self._locks[machine] = asyncio.Lock()
            self._tasks[machine] = asyncio.create_task(self._deliver_all(machine))

    def clear(self) -> None:
        """Forget all blocks: their senders have them, and send them again."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._locks.clear()
        self._queues.clear()
        self._reasons.clear()

    async def retry(self, machine: str) -> None:
        """Deliver the blocks of a machine now, as far as it takes them."""
        if machine not in self._locks:
            return
        queue = self._queues[machine]
        async with self._locks[machine]:
            try:
                while queue:
                    await self._deliver(queue[0].block)
                    queue.popleft().done()
            except UnavailableError as error:
                self._reasons[machine] = error

    async def _deliver_all(self, machine: str) -> None:
        while self._queues[machine]:
            await asyncio.sleep(RETRY_SECONDS)
            await self.retry(machine)
        del self._queues[machine], self._tasks[machine], self._locks[machine], self._reasons[machine]
