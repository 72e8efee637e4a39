"""A damaged store is repaired from what is readable; what is lost is told with its period."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.live.store import AuditEntry, RowSelection, Store, StoredToken, repair, schema
from cgsa.live.store.header import header_copy
from cgsa.live.store.repair import finish_repair
from tests.live.store.damage import PAGE, leaf_pages, root_page, scribble, scribble_page, unclean
from tests.live.store.examples import OLDEST, example_events, stored_diagnosis, write_example_events

ROWS = 400


def write_rows(store: Store, rows: int = ROWS) -> None:
    """Write events of all kinds, and one diagnosis per second."""
    write_example_events(store)
    for batch in range(5, rows):
        store.add_diagnosis(stored_diagnosis(batch))
    store.add_audit(AuditEntry(1.0, "eve", "close", "pump"))
    store.add_token(StoredToken("eve", "operator", "salt$hash", 1.0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with rows, closed."""
    with Store(tmp_path / "store.db") as store:
        write_rows(store)
    return tmp_path / "store.db"


def batches(store: Store) -> list[int]:
    with store.read() as snapshot:
        return [row.diagnosis.batch for row in snapshot.diagnoses(pick=OLDEST).rows]


def assert_rest_is_whole(store: Store) -> None:
    """Fail if anything but diagnoses is lost."""
    with store.read() as snapshot:
        assert snapshot.token("eve") == StoredToken("eve", "operator", "salt$hash", 1.0)
        assert AuditEntry(1.0, "eve", "close", "pump") in snapshot.audit().rows
        assert len(snapshot.cases().rows) == 2
        assert len(snapshot.comments().rows) == 1
        assert len(snapshot.labels().rows) == 2
        assert len(snapshot.snippets().rows) == 1
        assert len(snapshot.ledger("pump", 0, 99)["time"]) == 40
        assert snapshot.sizes()["tokens"].rows == 1


@pytest.mark.parametrize("name", ["diagnoses_in_time", "diagnoses_of_machine", "ledger_by_stage"])
def test_a_damaged_index_costs_nothing(path: Path, name: str) -> None:
    scribble_page(path, root_page(path, name))
    unclean(path)
    with Store(path) as store:
        assert "lost rows: none" in store.repairs[0]
        assert batches(store) == list(range(ROWS))
        assert_rest_is_whole(store)


def test_a_damaged_page_costs_its_rows_and_their_period_is_told(path: Path) -> None:
    pages = leaf_pages(path, "diagnoses")
    for page in (pages[3], pages[4], pages[9]):
        scribble_page(path, page)
    unclean(path)
    with Store(path) as store:
        found = batches(store)
        lost = sorted(set(range(ROWS)) - set(found))
        assert 3 <= len(lost) <= 100
        gaps = [number for number in lost if number - 1 not in lost]
        assert len(gaps) == 2
        message = store.repairs[0]
        # A batch ends 1.5 s after it begins; the rows before and after the gap bound it.
        assert f"diagnoses: those from 1970-01-01 00:{_clock(gaps[0] + 0.5)} UTC to 1970-01-01 00:" in message
        assert message.count("those from") == 2
        assert_rest_is_whole(store)
        with store.read() as snapshot:
            (told,) = snapshot.audit(who="service").rows
        assert (told.what, told.result) == ("repair the store", message)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def test_the_first_rows_and_the_last_are_told_as_such(path: Path) -> None:
    pages = leaf_pages(path, "diagnoses")
    scribble_page(path, pages[0])
    unclean(path)
    with Store(path) as store:
        assert "diagnoses: those before 1970-01-01" in store.repairs[0]
        assert batches(store)[-1] == ROWS - 1
    scribble_page(path, root_page(path, "diagnoses"))
    unclean(path)
    with Store(path) as store:
        assert "diagnoses: all" in store.repairs[-1]
        assert batches(store) == []
        assert_rest_is_whole(store)


@pytest.mark.parametrize("end", [16, 100, 4096])
def test_the_first_page_is_restored_from_its_copy(path: Path, end: int) -> None:
    scribble(path, 0, end)
    with Store(path) as store:
        assert "lost rows: none" in store.repairs[0]
        assert batches(store) == list(range(ROWS))
        assert_rest_is_whole(store)
    assert (path.parent / "store.db.first-page").exists()


def test_without_the_copy_all_is_lost_and_the_store_works(path: Path) -> None:
    header_copy(path).unlink()
    scribble(path, 0, 4096)
    with Store(path) as store:
        assert "diagnoses: all" in store.repairs[0]
        write_rows(store, 9)
        assert batches(store) == list(range(9))
    assert (path.parent / "store.db.damaged-1").exists()


def test_a_truncated_file_keeps_its_first_rows(path: Path) -> None:
    pages = sorted(leaf_pages(path, "diagnoses"))
    # The schema is in the pages before them.
    os.truncate(path, pages[len(pages) // 2] * PAGE)
    unclean_if_possible(path)
    with Store(path) as store:
        found = batches(store)
        assert "diagnoses: those after 1970-01-01" in store.repairs[0]
        assert found == list(range(len(found)))
        assert 0 < len(found) < ROWS
        with store.read() as snapshot:
            assert snapshot.token("eve") is not None


def unclean_if_possible(path: Path) -> None:
    try:
        unclean(path)
    except sqlite3.DatabaseError:
        return


def test_damage_after_a_clean_stop_is_found_while_the_store_is_used(path: Path) -> None:
    scribble_page(path, leaf_pages(path, "diagnoses")[5])
    with Store(path, retry_seconds=0.01) as store:
        told: list[str] = []
        store.on_repair = told.append
        assert store.repairs == ()
        assert store.check() is not None
        store.flush()
        assert len(store.repairs) == len(told) == 1
        assert len(batches(store)) > ROWS - 50
        assert store.check() is None


def test_a_reader_that_finds_damage_has_it_repaired(path: Path) -> None:
    scribble_page(path, root_page(path, "diagnoses_in_time"))
    with Store(path, retry_seconds=0.01) as store:
        with pytest.raises(DataError, match="cannot be read"), store.read() as snapshot:
            snapshot.diagnoses()
        store.flush()
        assert batches(store) == list(range(ROWS))


def test_a_writer_that_finds_damage_loses_no_write(path: Path) -> None:
    for name in ("diagnoses", "diagnoses_in_time", "diagnoses_of_machine"):
        scribble_page(path, root_page(path, name))
    with Store(path, retry_seconds=0.01) as store:
        for batch in range(ROWS, ROWS + 20):
            store.add_diagnosis(stored_diagnosis(batch))
        flush(store)
        assert batches(store) == list(range(ROWS, ROWS + 20))
        assert (store.problem, store.lost) == (None, 0)
        assert_rest_is_whole(store)


def flush(store: Store) -> None:
    """Wait for the store; the first attempt may find the damage."""
    try:
        store.flush()
    except DataError:
        store.flush()


def test_a_snapshot_from_before_a_repair_ends_well(path: Path) -> None:
    with Store(path, retry_seconds=0.01) as store:
        with store.read() as snapshot:
            before = snapshot.diagnoses(pick=OLDEST)
            store._writer.report_damage(sqlite3.DatabaseError("for a test"))
            store.flush()
            assert snapshot.diagnoses(pick=OLDEST) == before
        assert batches(store) == list(range(ROWS))


def test_lost_cases_are_restored_from_their_changes(path: Path) -> None:
    with Store(path) as store, store.read() as snapshot:
        before = snapshot.cases().rows
    scribble_page(path, root_page(path, "cases"))
    unclean(path)
    with Store(path) as store, store.read() as snapshot:
        assert "cases: all" in store.repairs[0]
        assert snapshot.cases().rows == before


def test_no_row_is_copied_that_could_not_be_read_later(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO audit (time, who, what, origin, result, details) VALUES (2, 'eve', 'open', '', '', '{')"
        )
    scribble_page(path, root_page(path, "diagnoses_in_time"))
    unclean(path)
    with Store(path) as store:
        assert "audit: none and 1 unusable" in store.repairs[0]
        assert_rest_is_whole(store)


def test_a_row_of_an_older_version_is_copied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is damaged before it could be migrated."""
    path.unlink()
    older = (*schema.MIGRATIONS[:6],)
    with monkeypatch.context() as patch:
        patch.setattr("cgsa.live.store.connection.MIGRATIONS", older)
        Store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO tokens (name, role, digest, created) VALUES ('eve', 'admin', 'x', 1)")
        connection.execute("UPDATE meta SET clean = 0")
    scribble_page(path, root_page(path, "diagnoses_in_time"))
    with Store(path) as store, store.read() as snapshot:
        assert snapshot.token("eve") == StoredToken("eve", "admin", "x", 1.0)


@pytest.mark.parametrize("step", ["_rescue", "sync_path", "_replace"])
def test_an_interrupted_repair_is_repeated(path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scribble_page(path, leaf_pages(path, "diagnoses")[5])
    unclean(path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(repair, step, killed)
        with pytest.raises(KeyboardInterrupt):
            Store(path)
    with Store(path) as store:
        assert len(batches(store)) > ROWS - 50
        assert_rest_is_whole(store)
    assert not list(path.parent.glob("*.repair*"))


def test_a_repair_ends_between_its_two_renames(path: Path) -> None:
    path.rename(path.parent / "store.db.repaired")
    finish_repair(path)
    with Store(path) as store:
        assert batches(store) == list(range(ROWS))


def test_the_log_repairs_the_file_after_a_crash(tmp_path: Path) -> None:
    path, crashed = tmp_path / "store.db", tmp_path / "crashed"
    crashed.mkdir()
    with Store(path) as store:
        write_example_events(store)
        for name in ("store.db", "store.db-wal"):
            shutil.copy(tmp_path / name, crashed)
    scribble(crashed / "store.db", 0, 100)
    with Store(crashed / "store.db") as store, store.read() as view:
        assert len(view.diagnoses().rows) == 5


@pytest.mark.parametrize("harm", ["UPDATE diagnoses SET probabilities = '{' WHERE batch = 3"])
def test_an_unreadable_row_does_not_hide_the_others(path: Path, harm: str) -> None:
    with Store(path) as store:
        store.write_together((harm, ()))
        with store.read() as snapshot:
            page = snapshot.diagnoses(pick=replace(OLDEST, limit=5))
            assert [row.diagnosis.batch for row in page.rows] == [0, 1, 2, 4]
            assert snapshot.unreadable == ["diagnoses: a row of 1970-01-01 00:00:04 UTC cannot be read"]
            following = snapshot.diagnoses(pick=RowSelection(newest_first=False, after=page.cursor, limit=5))
            assert [row.diagnosis.batch for row in following.rows] == [5, 6, 7, 8, 9]


def test_damaged_windows_do_not_hide_the_others(path: Path) -> None:
    with Store(path) as store:
        store.write_together(("UPDATE ledger SET data = zeroblob(9) WHERE batch = 1", ()))
        with store.read() as snapshot:
            assert len(snapshot.ledger("pump", 0, 99)["time"]) == 32
            assert snapshot.unreadable == ["ledger: a row of 1970-01-01 00:00:01 UTC cannot be read"]


def test_all_kinds_of_events_survive_a_repair(path: Path) -> None:
    scribble_page(path, root_page(path, "notes_in_time"))
    unclean(path)
    with Store(path) as store, store.read() as snapshot:
        counts = {name: size.rows for name, size in snapshot.sizes().items()}
    wanted = [type(event).__name__ for _, _, event in example_events()]
    for name, table in {
        "AlarmChange": "alarm_changes",
        "Note": "notes",
        "Comment": "comments",
        "Label": "labels",
    }.items():
        assert counts[table] == wanted.count(name)
