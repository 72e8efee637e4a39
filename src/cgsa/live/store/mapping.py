"""Rows from events, and events from rows.

A table has a column per field of its dataclass, under the field's name unless ``COLUMNS`` says otherwise. Values that
a database has no type for (dictionaries, tuples, dataclasses) are kept as JSON. Statements are the same for all
databases; what differs is in their dialects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, get_origin, get_type_hints

import numpy as np

from cgsa.errors import DataError
from cgsa.events import (
    AlarmChange,
    Case,
    ChangedLine,
    ChangeReport,
    ChannelLevels,
    Comment,
    CommissioningStatus,
    Diagnosis,
    Label,
    LevelReport,
    LevelTrend,
    LimitedLevel,
    Note,
    Operation,
    Trust,
)
from cgsa.ledger.columns import Columns
from cgsa.live.store.packing import pack_columns, pack_samples, to_text, unpack_samples
from cgsa.live.store.rows import (
    AuditEntry,
    Claim,
    DeliveryRecord,
    HealthyPiece,
    MaintenanceWindow,
    PublishedStatus,
    Snippet,
    StoredCase,
    StoredDiagnosis,
    StoredToken,
    StoredTrend,
)

T = TypeVar("T")
Value: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = Mapping[str, Value]
Statement: TypeAlias = tuple[str, tuple[Value, ...]]
"""SQL, and the values of its placeholders, which are question marks."""


class StoredRow(Protocol):
    """A row that was read; its values are found by the names of their columns, or by their places."""

    def __getitem__(self, key: int | str, /) -> Any:
        """Return the value of a column."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the values in the order of the columns."""


TABLES: Mapping[type[object], str] = {
    StoredDiagnosis: "diagnoses",
    StoredCase: "cases",
    AlarmChange: "alarm_changes",
    Comment: "comments",
    Label: "labels",
    Note: "notes",
    Snippet: "snippets",
    AuditEntry: "audit",
    StoredToken: "tokens",
    DeliveryRecord: "deliveries",
    MaintenanceWindow: "maintenance",
    StoredTrend: "trends",
    HealthyPiece: "healthy_signals",
    Claim: "claims",
    PublishedStatus: "machine_statuses",
}
COLUMNS: Mapping[tuple[type[object], str], str] = {
    (Diagnosis, "end"): "time",
    (Comment, "case"): "number",
    (Label, "case"): "number",
    (Snippet, "case"): "number",
    (DeliveryRecord, "case"): "number",
}
"""Columns whose names differ from those of their fields."""
Decoder: TypeAlias = Callable[[Any], object]
"""Turns the value of a column into that of a field."""
PLACE = 'machine, position, "index"'
"""Key of the events of a machine: where in its journal they came from."""


def insertion(table: str, row: Row, key: str = "") -> Statement:
    """Return the SQL that adds a row; a row whose key exists already is left as it is."""
    names = ", ".join(f'"{name}"' for name in row)
    once = f" ON CONFLICT ({key}) DO NOTHING" if key else ""
    sql = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))}){once}"  # noqa: S608 - names are the package's own, values are bound
    return sql, tuple(row.values())


def event_statements(
    position: int, index: int, event: AlarmChange | Comment | Label | Note | Snippet, arrived: float
) -> tuple[Statement, ...]:
    """Return the SQL that writes an event, which arrived now, under its place in the journal."""
    row = {**to_row(event), "position": position, "index": index}
    before: tuple[Statement, ...] = ()
    if isinstance(event, Note | Snippet):
        row["arrived"] = arrived
    if isinstance(event, AlarmChange):
        row["number"] = event.case.number
        # The case first: its changes refer to it.
        before = (case_statement(event, position, index),)
    if isinstance(event, Snippet):
        shape = event.samples.shape
        if shape[:1] != (len(event.channels),) or len(shape) != 2:
            raise DataError(f"snippet of {event.machine}: {shape} samples for {len(event.channels)} channels")
        row |= {"samples": shape[1], "data": pack_samples(event.samples)}
    return *before, insertion(TABLES[type(event)], row, PLACE)


def diagnosis_statement(stored: StoredDiagnosis, arrived: float) -> Statement:
    """Return the SQL that writes a diagnosis, which arrived now; its trust has columns of its own."""
    diagnosis = stored.diagnosis
    row = to_row(diagnosis) | {"machine": stored.machine, "flagged": stored.flagged, "response": stored.response}
    row["arrived"] = arrived
    del row["trust"]
    return insertion("diagnoses", row | (to_row(diagnosis.trust) if diagnosis.trust else {}), "machine, batch")


def ledger_statement(machine: str, batch: int, columns: Columns, arrived: float) -> tuple[Statement, ...]:
    """Return the SQL that writes the windows of a batch, which arrived now; none if it has none."""
    times = np.asarray(columns["time"])
    if not len(times):
        return ()
    layout, data = pack_columns(columns)
    row: Row = {
        "machine": machine,
        "batch": batch,
        "begin": float(times.min()),
        "time": float(times.max()),
        "windows": len(times),
        "layout": layout,
        "data": data,
        "arrived": arrived,
    }
    return (insertion("ledger", row, "machine, batch"),)


def delivery_statement(record: DeliveryRecord) -> Statement:
    """Return the SQL that writes what became of a notification to one sink, in place of what was known before.

    What is finished stays so, unless the sink is asked again: a process that lags behind another must not undo it.
    """
    row = to_row(record)
    changing = [name for name in row if name not in {"machine", "position", "index", "sink"}]
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in changing)
    insert, values = insertion("deliveries", row)
    upsert = (
        f'{insert} ON CONFLICT (machine, position, "index", sink) DO UPDATE SET {updates} '
        "WHERE deliveries.finished IS NULL OR excluded.finished IS NOT NULL OR excluded.time > deliveries.time "
        "OR excluded.event != deliveries.event"
    )
    return upsert, values


def trend_statement(trend: StoredTrend) -> Statement:
    """Return the SQL that writes a minute or hour, in place of one with no more measurements.

    Of several processes that record the same time, or of one that was restarted in it, the one that saw most of it
    counts, whichever writes last.
    """
    insert, values = insertion("trends", to_row(trend))
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in to_row(trend))
    upsert = (
        f"{insert} ON CONFLICT (machine, seconds, time) DO UPDATE SET {updates} "
        "WHERE excluded.batches + excluded.pieces >= trends.batches + trends.pieces"
    )
    return upsert, values


def healthy_piece_statement(piece: HealthyPiece) -> Statement:
    """Return the SQL that writes a piece of the healthy signal."""
    row = to_row(piece) | {"samples": piece.samples.shape[1], "data": pack_samples(piece.samples)}
    return insertion("healthy_signals", row)


def to_row(item: object) -> dict[str, Value]:
    """Return the columns of an object."""
    return {column: _encode(getattr(item, name)) for name, column, _ in _LAYOUTS[type(item)]}


def from_row(kept: type[T], row: StoredRow) -> T:
    """Return the object that a row keeps."""
    others = _OTHERS[kept](row) if kept in _OTHERS else {}
    return kept(
        **{name: decode(row[column]) for name, column, decode in _LAYOUTS[kept] if name not in others}, **others
    )


def case_statement(event: AlarmChange, position: int, index: int) -> Statement:
    """Return the SQL that writes the case after a change, unless a later one has been written already."""
    case = event.case
    row = to_row(case) | {"machine": event.machine, "position": position, "index": index, "time": case.opened}
    insert, values = insertion("cases", row)
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in row)
    upsert = (
        f"{insert} ON CONFLICT (machine, number) DO UPDATE SET {updates} "
        'WHERE (excluded.position, excluded."index") > (cases.position, cases."index")'
    )
    return upsert, values


def _layout(kept: Any) -> list[tuple[str, str, Decoder]]:
    """Return field, column and decoder of everything that a dataclass holds."""
    hints = get_type_hints(kept)
    return [(one.name, COLUMNS.get((kept, one.name), one.name), _decoder(hints[one.name])) for one in fields(kept)]


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, LevelReport):
        # Every batch has one, so the names of its fields are left out.
        return to_text(value, lambda item: list(vars(item).values()))
    return to_text(value, vars) if isinstance(value, Mapping | tuple) or is_dataclass(value) else value


def _decoder(hint: object) -> Decoder:
    if hint is bool:
        return bool
    for report, read in _REPORTS.items():
        if hint == report | None:
            return partial(_read_report, read)
    if hint is Case:
        return lambda text: Case(**(found := json.loads(text)) | {"faults": tuple(found["faults"])})
    if get_origin(hint) is tuple:
        return lambda text: tuple(json.loads(text))
    return json.loads if get_origin(hint) in {dict, Mapping} else lambda value: value


def _read_report(read: Callable[[Any], object], text: str | None) -> object:
    return None if text is None else read(json.loads(text))


def _levels(found: Sequence[Any]) -> LevelReport:
    """Return levels from their JSON values; a field that is added later comes last, and has a default."""
    channels, limits, trends, band, *rest = found
    return LevelReport(
        tuple(ChannelLevels(*one) for one in channels),
        tuple(LimitedLevel(*one) for one in limits),
        tuple(LevelTrend(*one) for one in trends),
        None if band is None else (band[0], band[1]),
        *rest,
    )


def _change_report(found: dict[str, Any]) -> ChangeReport:
    return ChangeReport(**found | {"lines": tuple(ChangedLine(**line) for line in found["lines"])})


_REPORTS: Mapping[type[object], Callable[[Any], object]] = {
    CommissioningStatus: lambda found: CommissioningStatus(**found),
    LevelReport: _levels,
    ChangeReport: _change_report,
    Operation: lambda found: Operation(**found),
}
"""How optional parts of an event are made from their JSON values."""
_OTHERS: Mapping[type[object], Callable[[StoredRow], dict[str, object]]] = {
    StoredDiagnosis: lambda row: {"diagnosis": from_row(Diagnosis, row)},
    Diagnosis: lambda row: {"flagged": {}, "trust": None if row["note"] is None else from_row(Trust, row)},
    StoredCase: lambda row: {"case": from_row(Case, row)},
    HealthyPiece: lambda row: {
        "samples": unpack_samples(row["data"], len(json.loads(row["channels"])), row["samples"])
    },
    Snippet: lambda row: {"samples": unpack_samples(row["data"], len(json.loads(row["channels"])), row["samples"])},
}
"""Fields that are made of several columns, or of none."""
_LAYOUTS = {kept: _layout(kept) for kept in (*TABLES, Diagnosis, Trust, Case)}
