from __future__ import annotations

import asyncio
from functools import partial

import pytest

from cgsa.errors import UnavailableError
from cgsa.live.intake.block import Block
from cgsa.service.sources import held_blocks
from cgsa.service.sources.held_blocks import MAX_HELD, HeldBlocks
from tests.service.sources.counterparts import block

CLOSED = UnavailableError("m1 is not monitored at present")


class Machine:
    """Takes blocks while it is open; taking one lets others run."""

    def __init__(self) -> None:
        self.open = False
        self.taken: list[int] = []

    async def deliver(self, one: Block) -> None:
        await asyncio.sleep(0)
        if not self.open:
            raise CLOSED
        self.taken.append(one.sequence)


def test_held_blocks_are_delivered_at_once_if_their_machine_takes_blocks_again() -> None:
    machine = Machine()
    finished: list[int] = []

    async def main() -> None:
        held = HeldBlocks(machine.deliver)
        for number in range(MAX_HELD):
            held.add(block(number), partial(finished.append, number), CLOSED)
        await held.retry("m1")
        assert held.full
        machine.open = True
        # Several that ask at the same time deliver nothing twice.
        await asyncio.gather(*(held.retry("m1") for _ in range(3)))
        assert not held.full
        await held.retry("unknown")
        held.clear()

    asyncio.run(main())
    assert machine.taken == finished == list(range(MAX_HELD))


def test_a_machine_is_tried_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_blocks, "RETRY_SECONDS", 0.01)
    machine = Machine()

    async def main() -> None:
        held = HeldBlocks(machine.deliver)
        held.add(block(7), lambda: None, CLOSED)
        await asyncio.sleep(0.05)
        assert list(held.reasons) == ["m1"]
        machine.open = True
        async with asyncio.timeout(20):
            while held.reasons:
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert machine.taken == [7]
