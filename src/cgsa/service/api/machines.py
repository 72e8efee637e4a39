"""Machines: their status, diagnoses, notes and ledger."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from fastapi import Query
from starlette.responses import Response

from cgsa.events import Note
from cgsa.ledger.columns import Column, Columns, LabelColumn
from cgsa.live.intake.block import MAX_TIME
from cgsa.live.monitored import MonitoredMachine
from cgsa.live.store import RowPage, StoredDiagnosis
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.api.parameters import MachineFilter, MachineWorker, Rows
from cgsa.service.api.routing import Context, CurrentPerson, needs, role_router
from cgsa.service.ranking import attention_rank
from cgsa.service.schemas import IntakeStatus, LedgerInterval, Machines, MachineStatus

MAX_WINDOWS = 100_000
"""Windows per answer."""
ENCODED_VALUES = 1000
"""Values that are encoded at once; more would hold up the diagnosis."""

router = role_router()


@router.get("/machines", tags=["machines"], **needs("viewer", scope="listed"))
def list_machines(context: Context, person: CurrentPerson) -> Machines:
    """Return all machines, the most urgent first."""
    covered = [(worker, worker.status()) for name, worker in context.plant.workers.items() if person.covers(name)]
    covered.sort(key=lambda one: attention_rank(one[1], one[1].case))
    return Machines(machines=tuple(_status(*one) for one in covered))


@router.get("/machines/{machine}", tags=["machines"], **needs("viewer", 404, scope="path"))
def show_machine(worker: MachineWorker) -> MachineStatus:
    """Return the status of one machine."""
    return _status(worker, worker.status())


@router.get("/machines/{machine}/intake", tags=["blocks"], **needs("sender", 404, scope="path"))
def show_intake(worker: MachineWorker) -> IntakeStatus:
    """Return how the blocks of a machine are received."""
    return IntakeStatus.model_validate(vars(worker.status()))


@router.get("/diagnoses", tags=["machines"], **needs("viewer", scope="listed"))
def list_diagnoses(context: Context, rows: Rows, machine: MachineFilter = None) -> RowPage[StoredDiagnosis]:
    """Return diagnoses, ordered by the end of their batches."""
    with context.plant.store.read() as snapshot:
        return snapshot.diagnoses(machine, rows)


@router.get("/notes", tags=["machines"], **needs("viewer", scope="listed"))
def list_notes(
    context: Context,
    rows: Rows,
    machine: MachineFilter = None,
    topic: Annotated[str | None, Query(max_length=64)] = None,
) -> RowPage[Note]:
    """Return notes: sensor faults, gaps, commands about learning, remarks of the service."""
    with context.plant.store.read() as snapshot:
        return snapshot.notes(machine, topic=topic, pick=rows)


@router.get(
    "/machines/{machine}/ledger", tags=["machines"], response_model=LedgerInterval, **needs("viewer", 404, scope="path")
)
def show_ledger(
    worker: MachineWorker,
    context: Context,
    begin: Annotated[float, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)],
    end: Annotated[float, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)],
    limit: Annotated[int, Query(ge=1, le=MAX_WINDOWS)] = 10_000,
) -> Response:
    """Return the windows of a time interval, column by column; more than ``limit`` windows are refused."""
    with context.plant.store.read() as snapshot:
        columns = snapshot.ledger(worker.machine, begin, end, limit=limit)
    about = {
        "machine": worker.machine,
        "begin": begin,
        "end": end,
        "windows": len(columns["time"]) if columns else 0,
    }
    # Serialised directly: validating a hundred thousand windows one by one takes too long.
    return Response("".join(_ledger_json(about, columns)), media_type="application/json")


def _status(worker: MonitoredMachine, status: WorkerStatus) -> MachineStatus:
    """Return the status of a machine."""
    case, manifest = status.case, worker.manifest
    return MachineStatus.model_validate(
        {
            **vars(status),
            "case": case if case is not None and case.open else None,
            "method": worker.watch_config.method,
            "classes": manifest.classes,
            "channels": manifest.channels,
            "sample_rate": manifest.sample_rate,
        }
    )


def _ledger_json(about: Mapping[str, object], columns: Columns) -> Iterator[str]:
    """Yield a ledger as JSON in small pieces: while one is encoded, no other thread of Python runs."""
    yield f"{json.dumps(about, allow_nan=False)[:-1]}, " + '"columns": {'
    for number, (name, column) in enumerate(columns.items()):
        yield f"{', ' if number else ''}{json.dumps(name)}: ["
        values = _values(column)
        for begin in range(0, len(values), ENCODED_VALUES):
            piece = json.dumps(values[begin : begin + ENCODED_VALUES], allow_nan=False)[1:-1]
            yield f", {piece}" if begin else piece
        yield "]"
    yield "}}"


def _values(column: Column) -> list[object]:
    """Return a column as JSON values."""
    if isinstance(column, LabelColumn):
        return [column.labels[code] for code in column.codes.tolist()]
    values: list[object] = column.tolist()
    if np.issubdtype(column.dtype, np.floating) and not np.isfinite(column).all():
        return [value if isinstance(value, float) and math.isfinite(value) else None for value in values]
    return values
