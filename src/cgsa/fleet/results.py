"""Where the results of a fleet go, and who may write those of a machine.

A shard that takes a machine over claims it, and gets an epoch. Only the newest epoch of a machine may write: a shard
that was believed dead and is not, or that has not learnt yet of a move, is fenced off by its first write. Results have
the positions of the log as their keys, so writing them again changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Case, Comment, Label, Note
from cgsa.fleet.failures import raise_unavailable
from cgsa.ledger.columns import Columns
from cgsa.live.results import add_results
from cgsa.live.store import Store, StoredDiagnosis
from cgsa.live.store.mapping import Statement, diagnosis_statement, event_statements, ledger_statement
from cgsa.live.watch import WatchResult

LOG = logging.getLogger(__name__)
_CLAIM = (
    "INSERT INTO claims (machine, version, epoch, owner) VALUES (?, ?, ?, ?) ON CONFLICT (machine) DO UPDATE SET "
    "version = excluded.version, owner = excluded.owner, "
    "epoch = CASE WHEN claims.epoch >= excluded.epoch THEN claims.epoch + 1 ELSE excluded.epoch END "
    "WHERE claims.version <= excluded.version"
)
# An epoch that is null is refused, and all that is written with it. The update locks the claim until the end of the
# transaction; the insertion is for a claim that a repair of the store could not restore.
_LOCK = "UPDATE claims SET epoch = CASE WHEN epoch = ? THEN epoch END WHERE machine = ?"
_REFUSE_UNCLAIMED = (
    "INSERT INTO claims (machine, version, epoch, owner) "
    "SELECT ?, 0, NULL, '' WHERE NOT EXISTS (SELECT 1 FROM claims WHERE machine = ?)"
)
_PUBLISH = (
    "INSERT INTO machine_statuses (machine, status) VALUES (?, ?) "
    "ON CONFLICT (machine) DO UPDATE SET status = excluded.status"
)


@dataclass(frozen=True, eq=False)
class ResultBatch:
    """What the owner of a machine has to write; without results, it only asks whether it still is the owner."""

    machine: str
    epoch: int
    results: tuple[tuple[int, WatchResult], ...] = ()
    """Positions in the log, and what the records there led to."""
    status: str | None = None
    """Status of the machine to be published, as JSON; None leaves the one before."""


class ResultStore(Protocol):
    """Takes the results of all machines, from many shards."""

    def claim(self, versions: Mapping[str, int], above: Mapping[str, int]) -> Mapping[str, int]:
        """Return a new epoch for each machine, whose earlier owners may write no more.

        ``versions`` has the version of the assignment that a shard acts on; a machine that was claimed with a later one
        is missing from the answer. ``above`` has the newest epochs of saved states: a store that was restored from a
        backup may not know them.
        """

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        """Write results; when this returns they are durable, except for the returned machines, which others own."""

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""


class StoredResults:
    """Results in a store: the SQLite file that one process has open, or a database that many write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def claim(self, versions: Mapping[str, int], above: Mapping[str, int]) -> Mapping[str, int]:
        """Return a new epoch for each machine, whose earlier owners may write no more."""
        owner = uuid4().hex
        claims = [(machine, version, above.get(machine, 0) + 1, owner) for machine, version in sorted(versions.items())]
        with _storing():
            self._store.write_each(*([(_CLAIM, values)] for values in claims))
            with self._store.read() as snapshot:
                found = snapshot.claims()
        return {machine: found[machine].epoch for machine in versions if found[machine].owner == owner}

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        """Write results; return the machines that others own."""
        # In one order, so that two shards never wait for each other.
        ordered = sorted(batches, key=lambda batch: batch.machine)
        with _storing():
            outcomes = self._store.write_each(*map(_statements_of, ordered))
            refused = [
                batch for batch, outcome in zip(ordered, outcomes, strict=True) if isinstance(outcome, Exception)
            ]
            return frozenset(batch.machine for batch in refused if not self._write_accepted(batch))

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""
        with _storing(), self._store.read() as snapshot:
            return snapshot.next_batch(machine), snapshot.newest_case(machine)

    def _write_accepted(self, batch: ResultBatch) -> bool:
        """Write what the store accepts of a refused batch; return whether its writer still owns the machine."""
        owns = _ownership(batch)
        [owned, *others] = self._store.write_each(
            owns, *([*owns, statement] for statement in _statements_of(batch)[len(owns) :])
        )
        if isinstance(owned, Exception):
            return False
        for outcome in others:
            if isinstance(outcome, Exception):
                LOG.error("%s: a result is lost: %s", batch.machine, outcome)
        return True


class _Statements:
    """Collects the statements that write results."""

    def __init__(self) -> None:
        self.found: list[Statement] = []
        self._now = time.time()

    def add(self, position: int, index: int, event: AlarmChange | Comment | Label | Note) -> None:
        self.found += event_statements(position, index, event, self._now)

    def add_diagnosis(self, stored: StoredDiagnosis) -> None:
        self.found.append(diagnosis_statement(stored, self._now))

    def add_ledger(self, machine: str, batch: int, columns: Columns) -> None:
        self.found += ledger_statement(machine, batch, columns, self._now)


def _ownership(batch: ResultBatch) -> list[Statement]:
    """Return statements that are refused unless a batch comes from the owner of its machine."""
    return [(_LOCK, (batch.epoch, batch.machine)), (_REFUSE_UNCLAIMED, (batch.machine, batch.machine))]


def _statements_of(batch: ResultBatch) -> list[Statement]:
    rows = _Statements()
    for position, result in batch.results:
        add_results(rows, batch.machine, position, result)
    published = [] if batch.status is None else [(_PUBLISH, (batch.machine, batch.status))]
    return [*_ownership(batch), *rows.found, *published]


@contextmanager
def _storing() -> Iterator[None]:
    """Raise whatever keeps results from being stored, such as a full disk, as an error that passes."""
    try:
        yield
    except DataError as error:
        raise_unavailable("results cannot be stored", error)
