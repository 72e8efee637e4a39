"""What became of a machine, from a fleet and from a single process, and how the two differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.states import MachineStates
from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.live.store import RowSelection, Store
from cgsa.live.watch import Watch


@dataclass(frozen=True, eq=False)
class MachineResults:
    """Everything that a machine has in the store, and the tensors of its last state."""

    rows: Mapping[str, list[object]]
    ledger: Columns
    tensors: Mapping[str, Tensor]


def results_of(store: Store, states: ObjectFolder | Mapping[str, Watch], machine: str) -> MachineResults:
    """Read the results of a machine; its state comes from the states of a fleet, or from its watch."""
    store.flush()
    rows: dict[str, list[object]] = {}
    with store.read() as snapshot:
        for table in ("diagnoses", "notes", "cases", "changes"):
            read, pick = getattr(snapshot, table), RowSelection(limit=1000, newest_first=False)
            page = read(machine, pick=pick)
            rows[table] = list(page.rows)
            while page.more:
                page = read(machine, pick=RowSelection(limit=1000, after=page.cursor, newest_first=False))
                rows[table] += page.rows
        ledger = snapshot.ledger(machine, 0.0, 1e12, limit=10**7)
    if not isinstance(states, ObjectFolder):
        return MachineResults(rows, ledger, states[machine].state()[0])
    newest = MachineStates(states.below(machine), 0).newest()
    if newest is None:
        raise RuntimeError(f"{machine} has no state")
    return MachineResults(rows, ledger, newest.tensors)


def differences(machine: str, found: MachineResults, expected: MachineResults) -> list[str]:
    """Return where the results of two processes differ in a single bit."""
    problems = [f"{machine}: {table}" for table in expected.rows if found.rows[table] != expected.rows[table]]
    problems += [
        f"{machine}: ledger {name}"
        for name in expected.ledger
        if not _same(found.ledger.get(name), expected.ledger[name])
    ]
    problems += [
        f"{machine}: state {name}"
        for name, tensor in expected.tensors.items()
        if not torch.equal(tensor.nan_to_num(), found.tensors[name].nan_to_num())
    ]
    if not expected.rows["diagnoses"]:
        problems.append(f"{machine}: nothing to compare")
    return problems


def _same(one: object, other: object) -> bool:
    if isinstance(one, LabelColumn) and isinstance(other, LabelColumn):
        return [one.labels[code] for code in one.codes] == [other.labels[code] for code in other.codes]
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
