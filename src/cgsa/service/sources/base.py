"""Base class of sources: links whose other side sends blocks."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import ClassVar

from cgsa.errors import DataError, OverloadError
from cgsa.live.commands import Command
from cgsa.live.intake.block import MAGIC, MAX_HEADER_BYTES, Block
from cgsa.live.plant import Plant
from cgsa.live.segments import MAX_PAYLOAD_BYTES
from cgsa.live.worker import SERVICE
from cgsa.service.links.link import Clock, Link, Sleep, supervise

RETRY_SECONDS = 0.25
"""Interval between attempts to submit a block that was refused because of overload."""

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

    def __init__(
        self, plant: Plant, config: object, *, name: str = "", sleep: Sleep = asyncio.sleep, clock: Clock = time.time
    ) -> None:
        counted = ("blocks", "bytes", "malformed", "overloads", "lost")
        super().__init__(name or self.kind, self.kind, counted, clock=clock)
        self.plant = plant
        self.config = config
        self.sleep = sleep
        self._machines: set[str] = set()
        """Machines that blocks came from; changes of the link are noted for them."""

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
            self.refuse(str(error))
            return
        if machine not in {None, block.machine}:
            self.refuse(f"block of {block.machine} in a message for {machine}; expected a block of that machine")
        else:
            await self.submit(block)

    def refuse(self, why: str) -> None:
        """Count a message that is no usable block."""
        self.count(malformed=1)
        self.note(why)

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
            self.refuse(f"no machine {block.machine!r} is monitored")
            return
        if block.samples.nbytes + MAX_HEADER_BYTES > MAX_PAYLOAD_BYTES:
            self.refuse(
                f"block of {block.machine}, sequence {block.sequence}: {block.samples.nbytes} bytes of samples; "
                f"expected at most {MAX_PAYLOAD_BYTES - MAX_HEADER_BYTES}"
            )
            return
        self._machines.add(block.machine)
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
