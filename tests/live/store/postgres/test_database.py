"""Writing over restarts of the server, lost answers and locked rows, and beside other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from cgsa.errors import DataError
from cgsa.events import Note
from cgsa.live.store import AuditEntry, LedgerBudget, PostgresAddress, RowRetention, Store, StoredToken
from cgsa.live.store.mapping import event_statements, insertion
from cgsa.live.store.postgres.database import PostgresDatabase
from tests.live.store.examples import OLDEST, all_rows, columns, stored_diagnosis, write_example_events
from tests.postgres import PostgresServer, running_postgres


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.fixture(scope="module")
def mortal(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server that tests stop and start."""
    del postgres  # skips here without a server
    with running_postgres() as server:
        yield server


def database_of(store: Store) -> PostgresDatabase:
    assert isinstance(store._database, PostgresDatabase)
    return store._database


def address_of(store: Store) -> PostgresAddress:
    return database_of(store)._address


def batches(store: Store) -> list[int]:
    with store.read() as view:
        return [row.diagnosis.batch for row in view.diagnoses(pick=OLDEST).rows]


def audit(store: Store) -> list[str]:
    with store.read() as view:
        return sorted(entry.what for entry in view.audit().rows)


def test_what_waits_while_the_server_is_away_is_written_once_it_is_back(mortal: PostgresServer) -> None:
    with mortal.database() as address, Store(address, retry_seconds=0.01, capacity=50) as store:
        store.add_diagnosis(stored_diagnosis(0))
        store.flush()
        mortal.kill()
        for batch in range(1, 20):
            store.add_diagnosis(stored_diagnosis(batch))
        with pytest.raises(DataError, match="cannot be written"):
            store.flush()
        with pytest.raises(DataError, match="cannot be read"):
            batches(store)
        assert (store.waiting, store.lost) == (19, 0)
        store.check_room()
        for batch in range(20, 60):
            store.add_diagnosis(stored_diagnosis(batch))
        with pytest.raises(DataError, match="cannot be written"):
            store.check_room()
        assert 0 < store.lost <= 10
        assert "127.0.0.1" in str(store.problem)
        mortal.start()
        while store.problem:
            time.sleep(0.01)
        store.flush()
        assert batches(store) == list(range(60 - store.lost))
        assert "can be written again" in store.notes[-1]


def test_an_idle_store_does_not_notice_a_restart(mortal: PostgresServer) -> None:
    with mortal.database() as address, Store(address, retry_seconds=60) as store:
        store.add_diagnosis(stored_diagnosis(0))
        store.flush()
        assert batches(store) == [0]
        mortal.kill()
        mortal.start()
        store.add_token(StoredToken("eve", "operator", "salt$hash", 1.0))
        assert batches(store) == [0]
        assert (store.notes, store.lost) == ((), 0)


def test_a_store_is_not_opened_without_a_server(mortal: PostgresServer) -> None:
    with mortal.database() as address:
        mortal.kill()
        with pytest.raises(DataError, match=r"postgresql://cgsa@127.0.0.1:\d+/test_\d+: cannot be opened \(.*refused"):
            Store(address)
        mortal.start()


def test_closing_a_failing_store_drops_its_queue(mortal: PostgresServer) -> None:
    with mortal.database() as address:
        store = Store(address, retry_seconds=60)
        mortal.kill()
        store.add_diagnosis(stored_diagnosis(0))
        with pytest.raises(DataError, match="cannot be written"):
            store.flush()
        store.close()
        assert store.lost == 1
        mortal.start()
        with Store(address) as again:
            assert batches(again) == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_whose_answer_is_lost_is_written_once(
    committed: bool,  # noqa: FBT001 - a parameter of pytest
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Audit entries have no key, so they would be there twice."""
    database, calls = database_of(store), 0
    commit = database._commit

    def lost() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            if committed:
                commit()
            database._connection.raw.close()
            raise psycopg.OperationalError("the connection is lost")
        commit()

    monkeypatch.setattr(database, "_commit", lost)
    for number in range(3):
        store.add_audit(AuditEntry(0.0, "eve", str(number)))
    store.flush()
    assert audit(store) == ["0", "1", "2"]
    assert (store.lost, store.problem) == (0, None)
    assert calls >= 2 - committed


def test_a_transaction_that_the_server_still_works_on_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failure of the network: the server commits later, when this process has a new connection."""
    database, old = database_of(store), database_of(store)._connection
    commit, calls = database._commit, 0

    def late() -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            commit()
            return
        threading.Timer(0.5, lambda: old.run("COMMIT")).start()
        database._connection = database._connected()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(database, "_commit", late)
    store.add_audit(AuditEntry(0.0, "eve", "once"))
    # It fails if the entry is written together with it: nobody can know yet what became of both.
    with suppress(DataError):
        store.flush()
    store.flush()
    assert audit(store) == ["once"]
    old.raw.close()


def test_locked_rows_are_reported_and_nothing_is_lost(store: Store) -> None:
    """Another program that locks a table simulates a slow server."""
    database = database_of(store)
    database._connection.run("SET lock_timeout = '50ms'")
    with psycopg.connect(**login(address_of(store))) as other:
        other.execute("LOCK TABLE diagnoses")
        store.add_diagnosis(stored_diagnosis(0))
        with pytest.raises(DataError, match="lock timeout"):
            store.flush()
        assert store.waiting >= 1
    while store.problem:
        time.sleep(0.01)
    store.flush()
    assert batches(store) == [0]


@pytest.mark.parametrize(
    "condition", ["disk_full", "read_only_sql_transaction", "insufficient_privilege", "serialization_failure"]
)
def test_what_is_wrong_with_the_server_costs_no_row(condition: str, store: Store, postgres: PostgresServer) -> None:
    """These errors are not about a row, so none is dropped for them."""
    database = address_of(store).database
    postgres.execute(
        f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE {condition}; END';"
        "CREATE TRIGGER failing BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION fail()",
        database,
    )
    store.add_diagnosis(stored_diagnosis(0))
    store.add(0, 0, Note("pump", 1.0, "gap", "text"))
    with pytest.raises(DataError, match="cannot be written"):
        store.flush()
    assert (store.waiting > 0, store.lost) == (True, 0)
    postgres.execute("DROP FUNCTION fail CASCADE", database)
    while store.problem:
        time.sleep(0.01)
    store.flush()
    assert batches(store) == [0]
    with store.read() as view:
        assert len(view.notes().rows) == 1
    assert store.lost == 0


def test_a_transaction_in_a_deadlock_is_tried_again(store: Store) -> None:
    """Two processes write the same rows in another order, as after a hand-over; PostgreSQL ends one of them."""
    statements = [event_statements(number, 0, Note("pump", 1.0, "gap", "text"), 1.0)[0] for number in range(2)]
    with psycopg.connect(**login(address_of(store))) as other:

        def insert(number: int) -> None:
            sql, values = statements[number]
            other.execute(sql.replace("?", "%s").encode(), values)

        # It looks for a deadlock later than the store, which thus is the one to be ended.
        other.execute("SET deadlock_timeout = '60s'")
        insert(1)
        writing = threading.Thread(target=store.write_together, args=statements)
        writing.start()
        waits = f"SELECT 1 FROM pg_locks WHERE NOT granted AND pid = {backend_of(store)}"  # noqa: S608 - a number
        while not other.execute(waits.encode()).fetchall():
            time.sleep(0.01)
        insert(0)
    writing.join()
    with store.read() as view:
        assert len(view.notes().rows) == 2
    assert (store.lost, store.notes) == (0, ())


def backend_of(store: Store) -> int:
    return database_of(store)._connection.raw.info.backend_pid


def test_refused_jobs_among_many_of_the_same_kind_cost_no_others(store: Store) -> None:
    for number in range(4):
        epochs = [1, 2, 2**70, 3, 4, None, 5]
        rows = [
            {"machine": f"m{number}-{index}", "version": 1, "epoch": epoch, "owner": ""}
            for index, epoch in enumerate(epochs)
        ]
        outcomes = store.write_each(*([insertion("claims", row)] for row in rows))
        assert [isinstance(outcome, DataError) for outcome in outcomes] == [not epoch or epoch > 9 for epoch in epochs]
    with store.read() as view:
        assert len(view.claims()) == 20
    assert store.problem is None


def test_two_processes_write_the_same_rows_once(store: Store) -> None:
    write_example_events(store)
    before = all_rows(address_of(store))
    with Store(address_of(store)) as other:
        write_example_events(other)
        assert other.notes == ()
    assert all_rows(address_of(store)) == before


def test_changes_of_tokens_are_seen_by_all(store: Store) -> None:
    with Store(address_of(store)) as other:
        store.add_token(StoredToken("eve", "operator", "salt$hash", 1.0))
        with pytest.raises(DataError, match="there is a token 'eve' already"):
            other.add_token(StoredToken("eve", "admin", "salt$hash", 1.0))
        other.revoke_token("eve", 2.0)
        with pytest.raises(DataError, match="no token 'eve' that could be revoked"):
            store.revoke_token("eve", 3.0)
        with store.read() as view:
            assert view.token("eve") == StoredToken("eve", "operator", "salt$hash", 1.0, None, 2.0)


def test_one_process_at_a_time_thins_and_deletes(store: Store) -> None:
    for batch in range(10):
        store.add_ledger("pump", batch, columns(float(batch), seed=batch))
    store.flush()
    nothing = LedgerBudget(whole_hours=0, sampled_hours=0)
    with Store(address_of(store)) as other:
        with other._database.maintaining() as chosen:
            assert chosen
            assert store.thin(1e12, nothing) == {}
            assert set(store.trim(1e12, RowRetention()).values()) == {0}
        assert store.thin(1e12, nothing)["pump"] > 0


def test_a_row_that_is_added_while_its_place_is_thinned_is_left_out(store: Store) -> None:
    """A process that repeats a batch waits until the thinned row that contains it is there."""
    for batch in range(4):
        store.add_ledger("pump", batch, columns(float(batch), seed=batch))
    store.flush()
    thinner = database_of(store).dialect
    with psycopg.connect(**login(address_of(store))) as other:
        ((sql, values),) = thinner.stop_additions("pump")
        other.execute(sql.replace("?", "%s").encode(), values)
        other.execute("DELETE FROM ledger")
        store.add_ledger("pump", 2, columns(2.0, seed=2))
        time.sleep(0.2)
        assert store.waiting == 1
        other.execute(
            'INSERT INTO ledger (machine, batch, last_batch, "begin", time, windows, layout, data) '
            "VALUES ('pump', 0, 3, 0, 4, 0, '[]', '')"
        )
    store.flush()
    assert [row[2] for row in all_rows(address_of(store))["ledger"]] == [0]


def test_a_new_row_of_the_writer_is_made_if_it_is_gone(store: Store) -> None:
    store.add_diagnosis(stored_diagnosis(0))
    store.write_together(("DELETE FROM writers", ()))
    store.add_diagnosis(stored_diagnosis(1))
    store.flush()
    assert batches(store) == [0, 1]


def test_commits_are_on_the_disk_even_if_the_server_would_not_wait(postgres: PostgresServer) -> None:
    with postgres.database() as address:
        postgres.execute(f"ALTER DATABASE {address.database} SET synchronous_commit = off")
        with Store(address) as store:
            shown = database_of(store)._connection.execute("SHOW synchronous_commit").fetchall()[0][0]
        postgres.execute(f"ALTER DATABASE {address.database} RESET synchronous_commit")
    assert shown == "on"


def test_reads_beyond_the_number_of_connections_wait(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgsa.live.store.postgres.readers.WAIT_SECONDS", 0.05)
    with postgres.database(readers=2) as address, Store(address) as store:
        refused = pytest.raises(DataError, match=r"all 2 connections are reading after 0\.05 s")
        with store.read(), store.read(), refused, store.read():
            pass
        with store.read() as view:
            assert view.diagnoses().rows == ()


def login(address: PostgresAddress) -> dict[str, Any]:
    return {"host": address.host, "port": address.port, "user": address.user, "dbname": address.database}
