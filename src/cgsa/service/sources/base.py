"""What a source is: a link whose other side sends blocks."""

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

HOLD_SECONDS = 0.25
"""Between two attempts to hand over a block that was refused because too much waited."""

_log = logging.getLogger(__name__)


class Source(Link):
    """Base of the sources.

    A source hands over one block after the other: they reach the journal in
    the order in which they came. Where a machine has too much to do, the source
    waits with its block and reads no further; machines that must not wait for
    each other have a source each.

    Parameters
    ----------
    plant
        Takes the blocks.
    name
        By which people know the source.
    sleep, clock
        How to wait, and what time it is.
    """

    kind: ClassVar[str]
    Config: ClassVar[type[object]]
    """Settings, a frozen dataclass."""

    def __init__(self, plant: Plant, name: str, *, sleep: Sleep = asyncio.sleep, clock: Clock = time.time) -> None:
        super().__init__(name, self.kind, ("blocks", "bytes", "malformed", "overloads", "lost"), clock=clock)
        self.plant = plant
        self.sleep = sleep
        self._machines: set[str] = set()
        """Those of which blocks came; they are told when no more can."""

    async def run(self) -> None:
        """Work through every failure; never returns by itself."""
        await supervise(self, sleep=self.sleep)
        await asyncio.Event().wait()

    async def tell(self, text: str) -> None:
        """Say it to the log, and where a person who wonders about a gap in the data will look for it."""
        await super().tell(text)
        for machine in sorted(self._machines):
            try:
                await asyncio.to_thread(self.plant.worker(machine).command, Command("remark", SERVICE, text))
            except Exception as error:  # a link must outlive even this
                _log.warning("%s: could not be told: %s", machine, error)

    async def take(self, payload: bytes, machine: str | None = None) -> None:
        """Take what came from outside, which must be a block in one of its forms, of the machine if one is named."""
        try:
            block = Block.from_bytes(payload) if payload.startswith(MAGIC) else Block.from_json(payload)
        except DataError as error:
            self.refuse(str(error))
            return
        if machine not in {None, block.machine}:
            self.refuse(f"block of {block.machine} came as one of {machine}; expected its own")
        else:
            await self.hand_over(block)

    def refuse(self, why: str) -> None:
        """Count something that came and is no block to be used; it costs nothing else."""
        self.count(malformed=1)
        self.note(why)

    def lose(self, number: int) -> None:
        """Count what came while there was no room for it; what it held shows as a gap."""
        self.count(lost=number)
        self.note(f"{number} came while there was no room for them, and were lost")

    async def hand_over(self, block: Block) -> None:
        """Bring a block into the journal of its machine, whenever there is room; one of no machine here is refused.

        When this returns, the block outlives the process. It raises where the
        journal cannot be written: the block is then still the sender's.
        """
        if block.machine not in self.plant.workers:
            self.refuse(f"no machine {block.machine!r} is watched")
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
                await self.sleep(HOLD_SECONDS)
            else:
                self.count(blocks=1, bytes=block.samples.nbytes)
                return
