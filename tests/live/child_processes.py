"""Functions that tests run in child processes, which are killed or run out of disk space."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import torch

from cgsa.errors import BundleError, DataError
from cgsa.live.checkpoint import Checkpoints, StateRetention
from cgsa.live.journal import Journal
from tests.live.faults import limited_file_size, payload

SEGMENT_BYTES = 2**19
RETENTION = StateRetention(newest=3, hourly=2, daily=2)


def state(position: int) -> dict[str, torch.Tensor]:
    """Return the state after all records before a position."""
    return {"seen": torch.tensor(position), "many": torch.full((1000,), position / 7)}


def watch(folder: Path, out: Connection) -> None:
    """Append records and save states for ever, and send a message after each."""
    torch.set_num_threads(1)
    checkpoints = Checkpoints(folder / "states", retention=RETENTION)
    with Journal(folder / "journal", segment_bytes=SEGMENT_BYTES) as journal:
        while True:
            position = journal.append("block", payload(journal.end))
            out.send(("record", position))
            if position % 3 == 0:
                saved = checkpoints.save(journal.end, state(journal.end), {}, time=60.0 * journal.end)
                out.send(("state", saved.number, saved.position))
                journal.forget(checkpoints.states()[0].position)


def append_until_full(folder: Path, out: Connection) -> None:
    """Append until the disk is full, then with space again."""
    with Journal(folder) as journal:
        with limited_file_size(1000):
            for number in range(20):
                try:
                    out.send(("record", journal.append("block", bytes([number]) * 100)))
                except DataError as problem:
                    out.send(("refused", str(problem)))
        out.send(("record", journal.append("block", b"after")))


def save_until_full(folder: Path, out: Connection) -> None:
    """Save a state that fits, one that does not, and that one again with space for it."""
    checkpoints = Checkpoints(folder)
    with limited_file_size(20_000):
        checkpoints.save(1, state(1), {}, time=0.0)
        try:
            checkpoints.save(2, {"large": torch.zeros(100_000)}, {}, time=0.0)
        except BundleError as problem:
            out.send(("refused", str(problem)))
        found = checkpoints.newest()
        out.send(("newest", found and found.saved.number))
    out.send(("saved", checkpoints.save(2, {"large": torch.zeros(100_000)}, {}, time=0.0).number))
