"""A small live stream for tests: blocks of the toy machine, as records of a journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cgsa.live.intake.block import Block
from cgsa.live.segments import JournalRecord
from cgsa.live.watch import BLOCK, Watch, WatchConfig
from tests.machines import RATE, ToyLibrary, bundle

BEGUN = 1_000.0
MACHINE = "toy"


def signal(seconds: float = 6.0, state: str = "health", seed: int = 0) -> np.ndarray:
    found = ToyLibrary(seed).get(state, "low", severity="H", specimen=1).signal
    return np.ascontiguousarray(found[:, : round(seconds * RATE)])


def blocks(
    samples: np.ndarray, sizes: Sequence[int] | int = 100, *, first: int = 0, time: float = BEGUN
) -> list[Block]:
    """Cut samples into blocks of one size, or of several sizes in turn."""
    wanted = [sizes] if isinstance(sizes, int) else list(sizes)
    found: list[Block] = []
    begin = 0
    while begin < samples.shape[1]:
        size = wanted[len(found) % len(wanted)]
        piece = np.ascontiguousarray(samples[:, begin : begin + size])
        found.append(Block(MACHINE, len(found), BEGUN + begin / RATE, RATE, ("a", "b"), piece))
        begin += size
    return found


def records(sent: Sequence[Block], kind: str = BLOCK) -> Iterator[JournalRecord]:
    for position, block in enumerate(sent):
        yield JournalRecord(position, kind, block.to_bytes())


def watch(method: str = "cgsa", **changes: object) -> Watch:
    config = WatchConfig(method=method, batch_size=64)
    return Watch(MACHINE, bundle(), replace(config, **changes), model="toy")  # type: ignore[arg-type]
