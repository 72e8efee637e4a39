from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cgsa.live.store import MIGRATIONS, AuditEntry, Store, StoredToken
from tests.live.store.examples import write_example_events


def test_sizes_match_the_tables(sqlite_store: Store) -> None:
    store = sqlite_store
    write_example_events(store)
    store.add_token(StoredToken("eve", "operator", "salt$hash", 1.0))
    store.use_token("eve", 12345.0)
    store.flush()
    with store.read() as view:
        sizes = view.sizes()
        for table, size in sizes.items():
            rows = view._connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a table of the store
            # As in SQLite, other values than text and blobs count as their text.
            weights = [
                sum(
                    len(v if isinstance(v, bytes) else str(v).encode())
                    for k, v in zip(r.keys(), r, strict=True)
                    if k not in {"id", "arrived"} and v is not None
                )
                for r in rows
            ]
            assert size.rows == len(rows)
            assert abs(size.bytes - sum(weights)) <= 3 * len(rows)
    assert sizes["diagnoses"].rows == 5
    assert sizes["tokens"].rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit SET who = 'nobody'",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit SELECT id, time, 'nobody', what, machine, origin, result, details FROM audit",
        "REPLACE INTO audit (id, time, who, what, origin, result, details) VALUES (1, 0, 'nobody', '', '', '', '{}')",
    ],
)
def test_the_audit_cannot_be_changed(sql: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.add_audit(AuditEntry(1.0, "eve", "close", "pump"))
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="the audit is only added to"),
    ):
        connection.execute(sql)
    with Store(path) as store, store.read() as view:
        assert view.audit().rows == (AuditEntry(1.0, "eve", "close", "pump"),)


def test_published_migrations_are_never_changed() -> None:
    found = hashlib.sha256("".join(MIGRATIONS[:11]).encode()).hexdigest()
    assert found == "8ad0c9c4ad9c44ca3efc6213b6294a64e42c32ed3515714553e66e11c96e37bd"
