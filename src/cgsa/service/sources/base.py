"""Base class of sources: links whose other side sends blocks."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import ClassVar

from cgsa.errors import DataError, OverloadError
from cgsa.live.commands import Command
from cgsa.live.intake.block import MAGIC, MAX_HEADER_BYTES, Block
from cgsa.live.intake.refusals import Refusal, RefusedBlockError
from cgsa.live.plant import Plant
from cgsa.live.segments import MAX_PAYLOAD_BYTES
from cgsa.live.worker import SERVICE
from cgsa.service.buckets import TokenBuckets
from cgsa.service.links.link import Clock, Link, Sleep, supervise

RETRY_SECONDS = 0.25
"""Interval between attempts to submit a block that was refused because of overload."""
LOG_SECONDS = 60.0
"""Interval at which the refusals of a machine are logged; a sender may repeat its mistake ten times a second."""

_log = logging.getLogger(__name__)


class Source(Link):
    """Base of the sources.

    A source submits one block after the other, so they reach the journal in the order in which they came. If a machine
    is overloaded, the source holds its block and reads no further; machines that must not wait for each other need a
    source each.

    Parameters
    ----------
    plant
        Receives the blocks.
    config
        Settings; a ``Config`` of the class.
    name
        Shown to people; the kind if there is none.
    sleep, clock
        How to wait, and the seconds since 1970.
    """

    kind: ClassVar[str]
    Config: ClassVar[type[object]]
    """Settings, a frozen dataclass."""
    counted: ClassVar[tuple[str, ...]] = ("blocks", "bytes", "malformed", "overloads", "lost")
    """Names of its counters."""

    def __init__(
        self, plant: Plant, config: object, *, name: str = "", sleep: Sleep = asyncio.sleep, clock: Clock = time.time
    ) -> None:
        super().__init__(name or self.kind, self.kind, self.counted, clock=clock)
        self.plant = plant
        self.config = config
        self.sleep = sleep
        self._machines: set[str] = set()
        """Machines that blocks came from; changes of the link are noted for them."""
        self._refusals = TokenBuckets(1 / LOG_SECONDS, 1)
        """How often the refusals of a machine are logged."""
        self._answered: dict[str, Refusal | None] = {}
        """The newest refusal of each machine that its senders know of."""

    async def run(self) -> None:
        """Receive blocks and reconnect after every failure; never returns by itself."""
        await supervise(self, sleep=self.sleep)
        await asyncio.Event().wait()

    async def report(self, text: str) -> None:
        """Report it to the log and in the notes of the machines, where it explains a gap in the data."""
        await super().report(text)
        for machine in sorted(self._machines):
            try:
                await asyncio.to_thread(self.plant.worker(machine).command, Command("remark", SERVICE, text))
            except Exception as error:  # a link must survive even this
                _log.warning("%s: the remark could not be added: %s", machine, error)

    async def accept(self, payload: bytes, machine: str | None = None) -> None:
        """Accept a message, which must be a block in binary form or JSON, and of the machine if one is named."""
        try:
            block = Block.from_bytes(payload) if payload.startswith(MAGIC) else Block.from_json(payload)
        except DataError as error:
            await self.refuse(str(error), machine)
            return
        if machine not in {None, block.machine}:
            why = f"block of {block.machine} in a message for {machine}; expected a block of that machine"
            await self.refuse(why, machine)
        else:
            await self.submit(block)

    async def refuse(self, why: str, machine: str | None = None) -> None:
        """Count a message that is no usable block, and let its sender know why."""
        self.count(malformed=1)
        self.note(why)
        if self._refusals.draw(machine):
            _log.warning("%s %s: %s", self.status.kind, self.status.name, why)
        if machine is not None:
            await self.answer_refusal(machine, why)

    async def answer_refusal(self, machine: str, why: str) -> None:
        """Send the reason to the senders of a machine, if the link has a way to do so."""

    def lose(self, number: int) -> None:
        """Count messages lost because the queue was full; they show as a gap."""
        self.count(lost=number)
        self.note(f"{number} messages were lost because the queue was full")

    async def submit(self, block: Block) -> None:
        """Write a block to the journal of its machine as soon as there is room; refuse it if the machine is unknown.

        When this returns, the block survives the process. It raises if the journal cannot be written: the sender then
        still has the block.
        """
        if block.machine not in self.plant.workers:
            await self.refuse(f"no machine {block.machine!r} is monitored", block.machine)
            return
        if block.samples.nbytes + MAX_HEADER_BYTES > MAX_PAYLOAD_BYTES:
            why = (
                f"block of {block.machine}, sequence {block.sequence}: {block.samples.nbytes} bytes of samples; "
                f"expected at most {MAX_PAYLOAD_BYTES - MAX_HEADER_BYTES}"
            )
            await self.refuse(why, block.machine)
            return
        self._machines.add(block.machine)
        try:
            await self.deliver(block)
        except RefusedBlockError as error:
            await self.refuse(str(error), block.machine)
        else:
            await self._answer_later_refusal(block.machine)

    async def deliver(self, block: Block) -> None:
        """Write a block to the journal of its machine as soon as there is room; raise if the machine cannot use it."""
        held = False
        while True:
            try:
                await asyncio.to_thread(self.plant.submit, block)
            except OverloadError as error:
                if not held:
                    self.count(overloads=1)
                    self.note(str(error))
                held = True
                await self.sleep(RETRY_SECONDS)
            else:
                self.count(blocks=1, bytes=block.samples.nbytes)
                return

    async def _answer_later_refusal(self, machine: str) -> None:
        """Let the sender know of data that were found unusable since its last block."""
        found = self.plant.worker(machine).watch.last_refused
        # What was refused before the first block came through this source was not its sender's.
        if found is not None and found != self._answered.setdefault(machine, found):
            self.note(found.text)
            await self.answer_refusal(machine, found.text)
        self._answered[machine] = found
