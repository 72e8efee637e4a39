"""Where the results of a fleet go, and who may write those of a machine.

A shard that takes a machine over claims it, and gets an epoch. Only the newest epoch of a machine may write: a shard
that was believed dead and is not, or that has not learnt yet of a move, is fenced off by its first write. Results have
the positions of the log as their keys, so writing them again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from cgsa.errors import DataError
from cgsa.events import Case
from cgsa.files import replacing
from cgsa.live.results import add_results
from cgsa.live.store import Store
from cgsa.live.watch import WatchResult


@dataclass(frozen=True, eq=False)
class ResultBatch:
    """What the owner of a machine has to write; without results, it only asks whether it still is the owner."""

    machine: str
    epoch: int
    results: tuple[tuple[int, WatchResult], ...] = ()
    """Positions in the log, and what the records there led to."""


class ResultStore(Protocol):
    """Takes the results of all machines, from many shards."""

    def claim(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        """Return a new epoch for each machine, whose earlier owners may write no more.

        ``versions`` has the version of the assignment that a shard acts on; a machine that was claimed with a later one
        is missing from the answer.
        """

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        """Write results; when this returns they are durable, except for the returned machines, which others own."""

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""


@dataclass(frozen=True)
class Claim:
    """Who may write the results of a machine."""

    version: int
    """Version of the assignment."""
    epoch: int


class StoredResults:
    """Results in a store that one process has open; ``claims`` is the file with the owners."""

    def __init__(self, store: Store, claims: Path) -> None:
        self._store, self._file = store, claims
        self._claims = _read_claims(claims)
        self._lock = Lock()

    def claim(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        """Return a new epoch for each machine, whose earlier owners may write no more."""
        with self._lock:
            none = Claim(-1, 0)
            granted = {
                machine: Claim(version, self._claims.get(machine, none).epoch + 1)
                for machine, version in versions.items()
                if version >= self._claims.get(machine, none).version
            }
            claims = {**self._claims, **granted}
            text = json.dumps({machine: [claim.version, claim.epoch] for machine, claim in claims.items()})
            with replacing(self._file, DataError) as fresh:
                fresh.write_text(text, encoding="utf-8")
            self._claims = claims
        return {machine: claim.epoch for machine, claim in granted.items()}

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        """Write results; return the machines that others own."""
        fenced = set()
        with self._lock:
            for batch in batches:
                claim = self._claims.get(batch.machine)
                if claim is None or claim.epoch != batch.epoch:
                    fenced.add(batch.machine)
                    continue
                for position, result in batch.results:
                    self._store.check_room()
                    add_results(self._store, batch.machine, position, result)
            if any(batch.results for batch in batches if batch.machine not in fenced):
                self._store.flush()
        return frozenset(fenced)

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""
        self._store.flush()
        with self._store.read() as snapshot:
            return snapshot.next_batch(machine), snapshot.newest_case(machine)


def _read_claims(path: Path) -> dict[str, Claim]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {machine: Claim(int(version), int(epoch)) for machine, (version, epoch) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read ({error}); expected who owns the machines of a fleet") from error
