"""The quiet run: the same blocks and commands without a fault, and what differs from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.faults.service import CONFIG, broken_program, machine_config

from cgsa.events import AlarmChange, Diagnosis
from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.live.commands import SERVICE, Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import Plant
from cgsa.live.segments import JournalRecord, read_journal
from cgsa.live.store import RowSelection
from cgsa.live.store.store import read_store
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND


def inputs_of(folder: Path, machine: str) -> list[Block | Command]:
    """Return what came from outside to a journal, in order: blocks, refusals of others, and commands of people."""
    found: list[Block | Command] = []
    for entry in read_journal(folder / "machines" / machine / "journal"):
        if not isinstance(entry, JournalRecord):
            continue
        if entry.kind in {BLOCK, BLOCK_NOT_LEARNT}:
            found.append(Block.from_bytes(entry.payload))
        elif entry.kind == COMMAND:
            command = Command.from_bytes(entry.payload)
            found += [command] if command.who != SERVICE or command.name == "refuse" else []
    return found


def run_quietly(folder: Path, model: Path, inputs: dict[str, list[Block | Command]]) -> None:
    """Process the same inputs in one process, to which nothing happens."""
    with broken_program(), Plant(folder, threads=1, config=CONFIG) as plant:
        for name in inputs:
            plant.add(machine_config(name, model))
        for name, entries in inputs.items():
            for entry in entries:
                if isinstance(entry, Command):
                    plant.worker(name).command(entry)
                else:
                    # What was refused when it was submitted stands in the journal already.
                    plant.worker(name)._append(BLOCK, entry.to_bytes(), entry)
        plant.wait_until_idle(3600.0)
        plant.store.flush()


def differences(ours: Path, quiet: Path, machine: str) -> tuple[list[str], int]:
    """Return what differs between two runs for one machine, and its number of diagnoses."""
    one, other = (_results(folder, machine) for folder in (ours, quiet))
    found = [f"{machine}: {what}" for what in ("diagnoses", "alarms") if getattr(one, what) != getattr(other, what)]
    mine, theirs = one.ledger, other.ledger
    if mine.keys() != theirs.keys() or any(not _same(mine[name], theirs[name]) for name in theirs):
        found.append(f"{machine}: ledger")
    numbers = [diagnosis.batch for diagnosis in one.diagnoses]
    if numbers != list(range(len(numbers))):
        found.append(f"{machine}: batches {Counter(numbers).most_common(1)} are missing or twice")
    return found, len(numbers)


@dataclass(frozen=True)
class _Results:
    diagnoses: list[Diagnosis]
    alarms: Sequence[tuple[float, str, str]]
    ledger: Columns


def _results(folder: Path, machine: str) -> _Results:
    with read_store(folder / "store.sqlite") as snapshot:
        diagnoses: list[Diagnosis] = []
        page = snapshot.diagnoses(machine, RowSelection(limit=1000, newest_first=False))
        diagnoses += [row.diagnosis for row in page.rows]
        while page.more:
            page = snapshot.diagnoses(machine, RowSelection(limit=1000, after=page.cursor, newest_first=False))
            diagnoses += [row.diagnosis for row in page.rows]
        changes: list[AlarmChange] = list(
            snapshot.changes(machine, pick=RowSelection(limit=1000, newest_first=False)).rows
        )
        ledger = snapshot.ledger(machine, 0.0, 1e11, limit=10**7)
    # Whether a fault lasted long enough for the alarm about missing data depends on the clock of this computer.
    alarms = [(change.time, change.change, change.fault) for change in changes if change.fault != "no data"]
    return _Results(sorted(diagnoses, key=lambda one: one.batch), alarms, ledger)


def _same(one: object, other: object) -> bool:
    if isinstance(one, LabelColumn) and isinstance(other, LabelColumn):
        return [one.labels[code] for code in one.codes] == [other.labels[code] for code in other.codes]
    a, b = np.asarray(one), np.asarray(other)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
