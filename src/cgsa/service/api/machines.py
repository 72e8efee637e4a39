"""Machines: how they stand, and what was told of them."""

from __future__ import annotations

import json
import math
from typing import Annotated

import numpy as np
from fastapi import Query
from starlette.responses import Response

from cgsa.ledger.columns import Column, LabelColumn
from cgsa.live.intake.block import MAX_TIME
from cgsa.live.worker import Worker
from cgsa.service.api.guarded import TheParts, guarded_router, needs
from cgsa.service.api.parameters import MachineName, OfMachine, Rows
from cgsa.service.ranking import attention_rank
from cgsa.service.schemas import Case, Ledger, Machine, Machines, Note, Page, Told

MOST_WINDOWS = 100_000
"""Of one answer; batch files take more."""

router = guarded_router()


@router.get("/machines", tags=["machines"], **needs("viewer"))
def list_machines(parts: TheParts) -> Machines:
    """Return all machines, ranked by how much they ask for a look."""
    workers = sorted(
        parts.plant.workers.values(), key=lambda worker: attention_rank(worker.status(), worker.watch.alarms.case)
    )
    return Machines(machines=tuple(map(_machine, workers)))


@router.get("/machines/{machine}", tags=["machines"], **needs("viewer", 404))
def show_machine(machine: MachineName, parts: TheParts) -> Machine:
    """Return how one machine stands."""
    return _machine(parts.worker(machine))


@router.get("/diagnoses", tags=["machines"], **needs("viewer", 503))
def list_diagnoses(parts: TheParts, rows: Rows, machine: OfMachine = None) -> Page[Told]:
    """Return diagnoses, by the times at which their batches end."""
    with parts.plant.store.read() as snapshot:
        return Page[Told].model_validate(snapshot.diagnoses(machine, rows))


@router.get("/notes", tags=["machines"], **needs("viewer", 503))
def list_notes(
    parts: TheParts,
    rows: Rows,
    machine: OfMachine = None,
    topic: Annotated[str | None, Query(max_length=64)] = None,
) -> Page[Note]:
    """Return what was noted: sensor trouble, gaps, commands about learning, remarks of the service."""
    with parts.plant.store.read() as snapshot:
        return Page[Note].model_validate(snapshot.notes(machine, topic=topic, pick=rows))


@router.get("/machines/{machine}/ledger", tags=["machines"], response_model=Ledger, **needs("viewer", 404, 503))
def show_ledger(
    machine: MachineName,
    parts: TheParts,
    begin: Annotated[float, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)],
    end: Annotated[float, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)],
    limit: Annotated[int, Query(ge=1, le=MOST_WINDOWS)] = 10_000,
) -> Response:
    """Return the windows of a time span, column by column; a span with more of them than ``limit`` is refused."""
    parts.worker(machine)
    with parts.plant.store.read() as snapshot:
        columns = snapshot.ledger(machine, begin, end, limit=limit)
    content = {
        "machine": machine,
        "begin": begin,
        "end": end,
        "windows": len(columns["time"]) if columns else 0,
        "columns": {name: _values(column) for name, column in columns.items()},
    }
    # Written as it is: a hundred thousand windows are too many to be looked at one by one.
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


def _machine(worker: Worker) -> Machine:
    """Return how a machine stands."""
    status, watch = worker.status(), worker.watch
    case = watch.alarms.case
    about = watch.bundle.manifest
    return Machine.model_validate(
        {
            **vars(status),
            "case": Case.model_validate(case) if case is not None and case.open else None,
            "method": watch.config.method,
            "classes": about.classes,
            "channels": about.channels,
            "sample_rate": about.sample_rate,
        }
    )


def _values(column: Column) -> list[object]:
    """Return a column as JSON has it."""
    if isinstance(column, LabelColumn):
        return [column.labels[code] for code in column.codes.tolist()]
    values: list[object] = column.tolist()
    if np.issubdtype(column.dtype, np.floating) and not np.isfinite(column).all():
        return [value if isinstance(value, float) and math.isfinite(value) else None for value in values]
    return values
