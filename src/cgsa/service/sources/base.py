"""Base class of sources: links whose other side sends blocks."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import ClassVar

from cgsa.errors import DataError, OverloadError, UnavailableError
from cgsa.live.commands import SERVICE, Command
from cgsa.live.intake.block import MAGIC, MAX_HEADER_BYTES, Block
from cgsa.live.intake.receiver import BlockReceiver
from cgsa.live.intake.refusals import Refusal, RefusedBlockError
from cgsa.live.segments import MAX_PAYLOAD_BYTES
from cgsa.service.buckets import TokenBuckets
from cgsa.service.links.link import Clock, Link, Sleep, supervise
from cgsa.service.sources.held_blocks import Done, HeldBlocks

RETRY_SECONDS = 0.25
"""Interval between attempts to submit a block that was refused because of overload."""
LOG_SECONDS = 60.0
"""Interval at which the refusals of a machine are logged; a sender may repeat its mistake ten times a second."""

_log = logging.getLogger(__name__)


class Source(Link):
    """Base of the sources.

    A source submits the blocks of a machine in the order in which they came. If a machine is overloaded, the source
    holds its block and reads no further, until the machine has caught up. If a machine can take no blocks because of a
    fault of its own, the source holds a few of them, and refuses further ones while other machines take theirs. If no
    machine takes any, the link ends, so that the other side keeps the blocks.

    Parameters
    ----------
    receiver
        Takes the blocks.
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
        self,
        receiver: BlockReceiver,
        config: object,
        *,
        name: str = "",
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.time,
    ) -> None:
        super().__init__(name or self.kind, self.kind, self.counted, clock=clock)
        self.receiver = receiver
        self.config = config
        self.sleep = sleep
        self._machines: set[str] = set()
        """Machines that blocks came from; changes of the link are noted for them."""
        self._refusals = TokenBuckets(1 / LOG_SECONDS, 1)
        """How often the refusals of a machine are logged."""
        self._held = HeldBlocks(self._deliver_held)
        self._delivered_since = True
        """Whether a block was delivered since the first of those that are held."""
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
                await asyncio.to_thread(self.receiver.command, machine, Command("remark", SERVICE, text))
            except Exception as error:  # a link must survive even this
                _log.warning("%s: the remark could not be added: %s", machine, error, extra={"machine": machine})

    async def accept(self, payload: bytes, machine: str | None = None, done: Done = lambda: None) -> None:
        """Accept a message, which must be a block in binary form or JSON, and of the machine if one is named.

        ``done`` is called once the message is in a journal, or refused.
        """
        try:
            block = Block.from_bytes(payload) if payload.startswith(MAGIC) else Block.from_json(payload)
        except DataError as error:
            await self.refuse(str(error), machine)
            done()
            return
        if machine not in {None, block.machine}:
            why = f"block of {block.machine} in a message for {machine}; expected a block of that machine"
            await self.refuse(why, machine)
            done()
        else:
            await self.submit(block, done)

    async def refuse(self, why: str, machine: str | None = None) -> None:
        """Count a message that is no usable block, and let its sender know why."""
        self.count(malformed=1)
        self.note(why)
        if self._refusals.draw(machine):
            _log.warning("%s %s: %s", self.status.kind, self.status.name, why, extra={"machine": machine})
        if machine is not None:
            await self.answer_refusal(machine, why)

    async def answer_refusal(self, machine: str, why: str) -> None:
        """Send the reason to the senders of a machine, if the link has a way to do so."""

    def lose(self, number: int) -> None:
        """Count messages lost because the queue was full; they show as a gap."""
        self.count(lost=number)
        self.note(f"{number} messages were lost because the queue was full")

    async def submit(self, block: Block, done: Done = lambda: None) -> None:
        """Write a block to the journal of its machine as soon as there is room; refuse it if the machine is unknown.

        When ``done`` is called, the block survives the process, or is refused. This raises if no machine takes blocks:
        the sender then still has the block.
        """
        if block.machine not in self.receiver.machines:
            await self.refuse(f"no machine {block.machine!r} is monitored", block.machine)
            done()
            return
        if block.samples.nbytes + MAX_HEADER_BYTES > MAX_PAYLOAD_BYTES:
            why = (
                f"block of {block.machine}, sequence {block.sequence}: {block.samples.nbytes} bytes of samples; "
                f"expected at most {MAX_PAYLOAD_BYTES - MAX_HEADER_BYTES}"
            )
            await self.refuse(why, block.machine)
            done()
            return
        self._machines.add(block.machine)
        if block.machine in self._held.reasons:
            # After those that wait already.
            await self._hold(block, done, self._held.reasons[block.machine])
            return
        try:
            await self._deliver_held(block)
        except UnavailableError as error:
            await self._hold(block, done, error)
        else:
            done()

    async def _deliver_held(self, block: Block) -> None:
        """Write a block to the journal of its machine, or refuse it."""
        try:
            await self.deliver(block)
        except RefusedBlockError as error:
            await self.refuse(str(error), block.machine)
        else:
            self._delivered_since = True
            await self._answer_later_refusal(block.machine)

    async def _hold(self, block: Block, done: Done, error: UnavailableError) -> None:
        """Hold a block of a machine that can take none; refuse it if too many are held and others take theirs."""
        if self._held.full:
            # The machine may take blocks again, but those that it was offered before come first.
            await self._held.retry(block.machine)
        if not self._held.full:
            self._delivered_since = self._delivered_since and bool(self._held.reasons)
            self._held.add(block, done, error)
            return
        if not self._delivered_since:
            raise error
        self.count(lost=1)
        why = f"block of {block.machine}, sequence {block.sequence} is lost: {error}"
        self.note(why)
        if self._refusals.draw(block.machine):
            _log.warning("%s %s: %s", self.status.kind, self.status.name, why, extra={"machine": block.machine})
        await self.answer_refusal(block.machine, why)
        done()

    async def deliver(self, block: Block) -> None:
        """Write a block to the journal of its machine as soon as there is room; raise if the machine cannot take it."""
        held = False
        while True:
            try:
                await asyncio.to_thread(self.receiver.submit, block)
            except UnavailableError:
                raise
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
        found = self.receiver.last_refused(machine)
        # What was refused before the first block came through this source was not its sender's.
        if found is not None and found != self._answered.setdefault(machine, found):
            self.note(found.text)
            await self.answer_refusal(machine, found.text)
        self._answered[machine] = found
