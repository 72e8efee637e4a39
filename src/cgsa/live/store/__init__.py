"""What the service remembers of its machines, in one SQLite file that people and pages can ask.

For what machines do, nothing here is the source of truth: the journals are. Every event is written under the place in
the journal that it came from, so a replay after a crash writes the same rows again and changes nothing. A file that
was damaged is put aside, a new one is begun, and what no journal can bring back (audit, tokens, cases, comments,
labels) is saved from the old one as far as it can be read.

One thread owns the connection that writes. It takes all that waits into one transaction, so hundreds of machines cost
a few commits a second. A full disk stops nobody: what comes is kept in memory and tried again, and once there is too
much of it, it is given up and counted. Readers have connections of their own and see one moment of the store each,
however long they look.
"""

from __future__ import annotations

from cgsa.live.store.packing import pack_columns, unpack_columns
from cgsa.live.store.pages import MAX_PAGE, NEWEST, RowPage, RowSelection
from cgsa.live.store.rows import AuditEntry, Snippet, StoredCase, StoredDiagnosis, StoredToken, TableSize
from cgsa.live.store.schema import MIGRATIONS
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.store.store import DAY, RowRetention, Store

__all__ = [
    "DAY",
    "MAX_PAGE",
    "MIGRATIONS",
    "NEWEST",
    "AuditEntry",
    "RowPage",
    "RowRetention",
    "RowSelection",
    "Snapshot",
    "Snippet",
    "Store",
    "StoredCase",
    "StoredDiagnosis",
    "StoredToken",
    "TableSize",
    "pack_columns",
    "unpack_columns",
]
