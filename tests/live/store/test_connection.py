from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.live.store import MIGRATIONS, Store, connection
from tests.live.store.examples import dump, stored_diagnosis, write_example_events


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "deep" / "store.db") as store:
        store.add_diagnosis(stored_diagnosis(0))
        store.flush()
        modes = {path.name: path.stat().st_mode & 0o777 for path in store.files[0].parent.iterdir()}
    assert set(modes.values()) == {0o600}
    names = sorted(path.name for path in store.files[0].parent.iterdir())
    assert names == ["store.db", "store.db.header", "store.db.lock"]


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


def test_a_store_is_clean_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path), closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT clean FROM meta").fetchone() == (0,)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT clean FROM meta").fetchone() == (1,)
