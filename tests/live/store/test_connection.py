from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.live.store import MIGRATIONS, AuditEntry, Store, StoredToken, connection
from tests.live.store.examples import dump, stored_diagnosis, write_example_events


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "deep" / "store.db") as store:
        store.add_diagnosis(stored_diagnosis(0))
        store.flush()
        modes = {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["store.db", "store.db.lock"]


def test_a_path_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        Store(tmp_path / "file" / "store.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="folder: cannot be opened"):
        Store(tmp_path / "folder")


def test_files_of_other_programs_are_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(DataError, match="a database, but not a store of cgsa"):
        Store(path)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["store.db", "store.db.lock"]


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store(path).close()
    newest = len(MIGRATIONS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {newest + 5}")
    with pytest.raises(DataError, match=f"store of version {newest + 5}; this cgsa reads versions up to {newest}"):
        Store(path)


def test_an_older_store_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        write_example_events(store)
    steps = ("ALTER TABLE notes ADD COLUMN colour TEXT;", "UPDATE notes SET colour = 'red';")
    monkeypatch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, *steps))
    for _ in range(2):
        with Store(path) as store, store.read() as view:
            assert len(view.notes().rows) == 1
            assert view._connection.execute("SELECT colour FROM notes").fetchone()[0] == "red"
            assert view._connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS) + len(steps)


def test_a_failed_migration_leaves_the_older_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        write_example_events(store)
    before = dump(path)
    with monkeypatch.context() as patch:
        patch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, "DELETE FROM notes; CREATE TABLE notes (x);"))
        with pytest.raises(DataError, match="cannot be opened"):
            Store(path)
    assert dump(path) == before
    with Store(path) as store, store.read() as view:
        assert len(view.notes().rows) == 1


def unclean(path: Path) -> None:
    """Mark a store as one that a killed service leaves."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET clean = 0")


def test_a_store_is_clean_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path), closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT clean FROM meta").fetchone() == (0,)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT clean FROM meta").fetchone() == (1,)


def root_page(path: Path, name: str) -> int:
    """Return the number of the first page of a table or index, from 1."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        return int(found[0])


def scribble(path: Path, begin: int, end: int) -> None:
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(b"\xa5" * (end - begin))


def test_only_a_store_that_was_not_closed_is_checked(tmp_path: Path) -> None:
    """The check takes long, so it runs only after a crash."""
    path = tmp_path / "store.db"
    with Store(path) as store:
        for batch in range(200):
            store.add_diagnosis(stored_diagnosis(batch))
    page = root_page(path, "diagnoses_in_time")
    scribble(path, (page - 1) * 4096, page * 4096)
    with Store(path) as store:
        assert store.notes == ()
    unclean(path)
    with Store(path) as store:
        assert "damaged" in store.notes[0]


def test_a_damaged_file_is_set_aside_and_readable_rows_are_copied(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        write_example_events(store)
        store.add_audit(AuditEntry(1.0, "eve", "close", "pump"))
        store.add_token(StoredToken("eve", "operator", "salt$hash", 1.0))
    unclean(path)
    page = root_page(path, "diagnoses")
    scribble(path, (page - 1) * 4096, page * 4096)
    with Store(path) as store:
        (note,) = store.notes
        assert "store.db.damaged-1 and replaced by a new one" in note
        assert "1 of audit, 1 of tokens, 2 of cases" in note
        assert "could not be read" not in note
        with store.read() as view:
            assert view.audit().rows == (AuditEntry(1.0, "eve", "close", "pump"),)
            assert view.token("eve") == StoredToken("eve", "operator", "salt$hash", 1.0)
            assert len(view.cases().rows) == 2
            assert view.diagnoses().rows == ()
            assert view.sizes()["audit"].rows == 1
        write_example_events(store)
        with store.read() as view:
            assert len(view.diagnoses().rows) == 5
    assert (tmp_path / "store.db.damaged-1").exists()


@pytest.mark.parametrize(("begin", "end"), [(0, 16), (0, 4096), (20, 4096 * 12)])
def test_a_file_that_is_no_longer_a_database_is_set_aside(begin: int, end: int, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for number in (1, 2):
        with Store(path) as store:
            write_example_events(store)
        scribble(path, begin, end)
        with Store(path) as store:
            (note,) = store.notes
            assert f"renamed to store.db.damaged-{number}" in note
            assert "the others are unreadable" in note
            with store.read() as view:
                assert view.cases().rows == ()


def test_the_log_of_a_damaged_file_is_set_aside_with_it(tmp_path: Path) -> None:
    """Otherwise it would be applied to the new file; next to the old one it may still repair it."""
    names = [f"store.db{end}" for end in ("", "-wal", "-shm")]
    for number in (1, 2):
        for name in names:
            (tmp_path / name).write_text(f"{name} {number}")
        aside = connection._rename_damaged(tmp_path / "store.db")
        assert aside == tmp_path / f"store.db.damaged-{number}"
        for name, end in zip(names, ("", "-wal", "-shm"), strict=True):
            assert Path(f"{aside}{end}").read_text() == f"{name} {number}"
            assert not (tmp_path / name).exists()


def test_the_log_repairs_the_file_after_a_crash(tmp_path: Path) -> None:
    path, crashed = tmp_path / "store.db", tmp_path / "crashed"
    crashed.mkdir()
    with Store(path) as store:
        write_example_events(store)
        for name in ("store.db", "store.db-wal"):
            shutil.copy(tmp_path / name, crashed)
    scribble(crashed / "store.db", 0, 100)
    with Store(crashed / "store.db") as store, store.read() as view:
        assert store.notes == ()
        assert len(view.diagnoses().rows) == 5


def test_no_row_is_copied_that_could_not_be_read_later(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.add_audit(AuditEntry(1.0, "eve", "close", "pump"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO audit (time, who, what, origin, result, details) VALUES (2, 'eve', 'open', '', '', '{')"
        )
    unclean(path)
    page = root_page(path, "diagnoses")
    scribble(path, (page - 1) * 4096, page * 4096)
    with Store(path) as store:
        assert "1 of audit" in store.notes[0]
        assert "the others are unreadable" in store.notes[0]
        with store.read() as view:
            assert view.audit().rows == (AuditEntry(1.0, "eve", "close", "pump"),)


def test_a_truncated_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        write_example_events(store)
    os.truncate(path, path.stat().st_size // 2)
    with Store(path) as store:
        assert "damaged" in store.notes[0]
        write_example_events(store)
        assert store.problem is None
