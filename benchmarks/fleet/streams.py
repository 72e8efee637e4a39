"""The streams of a fleet: one recording, a little different for each machine, with commands in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks import kills

from cgsa.fleet.log.contract import ReplayableLog
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND


def machine_configs(model: Path, count: int) -> tuple[MachineConfig, ...]:
    """Return machines that learn from most windows."""
    return tuple(
        MachineConfig(f"m{number:03d}", str(model), profile="paper", settings=kills.EVERY_WINDOW)
        for number in range(count)
    )


def block_of(template: Block, number: int, machine: str) -> Block:
    """Return the block of one machine."""
    samples = (np.float32(1 + 0.01 * number) * template.samples).astype(np.float32)
    return replace(template, machine=machine, samples=samples)


def rounds(machines: Sequence[MachineConfig], seconds: float) -> Iterator[tuple[tuple[str, str, bytes, str], ...]]:
    """Yield what all machines publish in each tenth of a second: machine, kind, payload and key of each record."""
    for index, template in enumerate(kills.make_blocks(seconds)):
        records = []
        for number, machine in enumerate(machines):
            # Some blocks come while a gateway finds that the shards are behind.
            kind = BLOCK_NOT_LEARNT if (index // 10 + number) % 7 == 0 else BLOCK
            block = block_of(template, number, machine.name)
            records.append((machine.name, kind, block.to_bytes(), f"block {block.sequence}"))
            if index % 40 == 20 + number % 10:
                name, text = ("freeze", "for a while") if index % 80 < 40 else ("thaw", "again")
                command = Command(name, "operator", text)  # type: ignore[arg-type]
                records.append((machine.name, COMMAND, command.to_bytes(), f"command {index}"))
        yield tuple(records)


def publish(log: ReplayableLog, records: Sequence[tuple[str, str, bytes, str]]) -> None:
    """Append records; those that are there already, by their keys, stay as they are."""
    for machine, kind, payload, key in records:
        log.append(machine, kind, payload, key=key)
