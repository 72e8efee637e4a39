"""What a shard publishes of a machine, so that whoever shows it asks no shard."""

from __future__ import annotations

from dataclasses import dataclass

from cgsa.live.store.packing import to_text
from cgsa.live.worker_status import WorkerStatus


@dataclass(frozen=True)
class PublishedMachine:
    """The status of a machine after the record before a position."""

    epoch: int
    """Of its owner."""
    position: int
    """Position of the next record; the results of those before it are in the store."""
    written: float
    """When it was published, by the clock of the shard, so that each publication is another text."""
    refusals: tuple[tuple[int, str], ...]
    """Positions of the newest commands that were refused, and the reasons."""
    worker: WorkerStatus

    def to_text(self) -> str:
        """Return it as JSON."""
        return to_text(self, vars)
