"""What the senders of the machines send, with their own faults: odd records, restarts, clocks that jump."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from benchmarks.faults.service import ODD

from cgsa.live.intake.block import Block

RATE, CHANNELS, BLOCK = 2_000.0, ("x", "y"), 1000
"""Blocks of half a second."""
BEGUN = 1_700_000_000.0
EVENTS = ("odd record", "not a number", "restart", "clock ahead", "clock behind", "missing")
"""What may happen at a block; in a long stream each happens many times."""
WRONG_CLOCK = "restart behind"
"""A sender whose clock was ahead restarts with the right one: its blocks are refused until an operator admits it."""


@dataclass(frozen=True, eq=False)
class StreamEvent:
    """Something that happens at a block."""

    name: str
    block: Block


def make_stream(
    machine: str, seconds: float, rng: random.Random, events: list[StreamEvent], *, kinds: tuple[str, ...] = EVENTS
) -> list[Block]:
    """Return the blocks of a machine; what happens in it is added to ``events``."""
    noise = np.random.default_rng(rng.randrange(2**32))
    sequence, clock, found = 0, BEGUN, list[Block]()
    count = max(8, round(seconds * RATE / BLOCK))
    # One event every few minutes of stream, and at least one per machine.
    planned = {
        place: rng.choice(kinds) for place in rng.sample(range(4, count), k=min(count - 4, max(1, count // 240)))
    }
    for number in range(count):
        begin = number * BLOCK / RATE
        time = begin + np.arange(BLOCK) / RATE
        wear = 0.5 if number > count // 2 else 0.1
        line = np.sin(2 * np.pi * 180 * time) + wear * np.sin(2 * np.pi * 410 * time)
        samples = (np.stack([line, 0.5 * line]) + 0.3 * noise.standard_normal((2, BLOCK))).astype(np.float32)
        event = planned.get(number)
        match event:
            case "odd record":
                samples[0, 7] = ODD
            case "not a number":
                samples[1, 100:110] = np.nan
            case "restart":
                sequence = 0
                clock += 3.0
            case "clock ahead":
                clock += 3600.0
            case "clock behind":
                clock -= 3600.0
            case "restart behind":
                sequence = 0
                clock -= 3600.0
            case "missing":
                sequence += 2
                clock += 2 * BLOCK / RATE
        found.append(Block(machine, sequence, clock + begin, RATE, CHANNELS, samples))
        if event is not None:
            events.append(StreamEvent(event, found[-1]))
        sequence += 1
    return found
