"""The database of the service: diagnoses, ledgers, alarms, audit and tokens of all machines.

It is one SQLite file, or, where several nodes write, a PostgreSQL database (``postgres``). The statements and what they
mean are the same; ``dialect.py`` has what differs.

For what happens to machines, the journals are the source of truth, not the store. The key of every event contains its
position in the journal, so a replay after a crash writes the same rows again and changes nothing. A damaged file is
renamed and a new one created; what no journal can restore (audit, tokens, cases, comments, labels) is copied from the
old file as far as it is readable.

One thread owns the connection that writes. It writes everything in its queue in one transaction, so hundreds of
machines cost a few commits per second. A full disk, or a server that is away, stops nothing: writes stay in memory and
are tried again; if there are too many, they are dropped and counted. Every reader has its own connection and sees a
consistent snapshot for as long as it reads.
"""

from __future__ import annotations

from cgsa.live.store.case_filter import CaseFilter
from cgsa.live.store.packing import pack_columns, unpack_columns
from cgsa.live.store.pages import MAX_PAGE, NEWEST, RowPage, RowSelection
from cgsa.live.store.postgres.address import PostgresAddress
from cgsa.live.store.rows import (
    AuditEntry,
    DeliveryRecord,
    DeliveryState,
    HealthyPiece,
    MaintenanceWindow,
    Repeats,
    Snippet,
    StoredCase,
    StoredDiagnosis,
    StoredToken,
    StoredTrend,
    TableSize,
)
from cgsa.live.store.schema import MIGRATIONS
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.store.store import DAY, RowRetention, Store
from cgsa.live.store.thinning import LedgerBudget

__all__ = [
    "DAY",
    "MAX_PAGE",
    "MIGRATIONS",
    "NEWEST",
    "AuditEntry",
    "CaseFilter",
    "DeliveryRecord",
    "DeliveryState",
    "HealthyPiece",
    "LedgerBudget",
    "MaintenanceWindow",
    "PostgresAddress",
    "Repeats",
    "RowPage",
    "RowRetention",
    "RowSelection",
    "Snapshot",
    "Snippet",
    "Store",
    "StoredCase",
    "StoredDiagnosis",
    "StoredToken",
    "StoredTrend",
    "TableSize",
    "pack_columns",
    "unpack_columns",
]
