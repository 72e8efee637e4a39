"""Queries of pages, ledgers and old rows use the indexes, as in SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from cgsa.live.store import RowSelection, Store
from cgsa.live.store.mapping import Value
from cgsa.live.store.postgres.connection import PostgresConnection
from tests.live.store.examples import columns, stored_diagnosis
from tests.postgres import PostgresServer


@pytest.fixture(scope="module")
def store(postgres: PostgresServer) -> Iterator[Store]:
    with postgres.database() as address, Store(address) as opened:
        for batch in range(3000):
            opened.add_diagnosis(stored_diagnosis(batch, f"m{batch % 30}"))
            opened.add_ledger(f"m{batch % 30}", batch, columns(float(batch)))
        opened.flush()
        postgres.execute("ANALYZE", address.database)
        yield opened


def plans(connection: PostgresConnection, asked: Sequence[tuple[str, Sequence[Value]]]) -> list[str]:
    return ["\n".join(row[0] for row in connection.execute(f"EXPLAIN {sql}", values)) for sql, values in asked]


def test_queries_need_no_sorting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paging through a year of rows uses an index in both directions."""
    asked: list[tuple[str, Sequence[Value]]] = []
    with store.read() as view:
        connection = view._connection
        assert isinstance(connection, PostgresConnection)
        execute = PostgresConnection.execute

        def record(self: PostgresConnection, sql: str, values: Sequence[Value] = (), /) -> object:
            asked.append((sql, values))
            return execute(self, sql, values)

        with monkeypatch.context() as patch:
            patch.setattr(PostgresConnection, "execute", record)
            for machine in ("m1", None):
                for newest_first in (True, False):
                    pick = RowSelection(0.0, 1e9, newest_first=newest_first, limit=5)
                    view.diagnoses(machine, replace(pick, after=view.diagnoses(machine, pick).cursor))
            view.ledger("m1", 0, 9)
            view.newest_arrivals("ledger")
            view.next_batch("m1")
        assert len(asked) == 12
        for (sql, _), plan in zip(asked, plans(connection, asked), strict=True):
            assert "Index" in plan, sql
            assert "Seq Scan" not in plan, f"{sql}\n{plan}"
            # A ledger is read whole; that its few batches are put in order costs nothing.
            assert "Sort" not in plan or "layout" in sql, f"{sql}\n{plan}"


def test_old_rows_are_found_with_an_index(store: Store) -> None:
    sql, values = store._database.dialect.old_rows("ledger", {"m1": 1.0, "m2": 2.0}, 500)
    with store.read() as view:
        assert isinstance(view._connection, PostgresConnection)
        (plan,) = plans(view._connection, [(sql, values)])
    assert "ledger_by_arrival" in plan, plan
    assert "Seq Scan" not in plan, "a scan of all rows would take minutes"


def test_sizes_are_those_that_the_server_knows(store: Store) -> None:
    with store.read() as view:
        view._connection.execute("SELECT pg_stat_force_next_flush()")
        sizes = view.sizes()
    assert {"diagnoses", "ledger", "audit"} <= sizes.keys()
    assert sizes["diagnoses"].bytes > 100_000
    assert sizes["diagnoses"].rows == 3000
    assert "writers" not in sizes
