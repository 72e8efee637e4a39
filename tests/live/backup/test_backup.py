"""A backup of a running worker resumes with the verdicts of the worker itself."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.files import replacing
from cgsa.live.backup import back_up, create, manifest, read_manifest, restore
from cgsa.live.journal import Journal
from cgsa.live.kept_signal import SignalRetention
from cgsa.live.segments import JournalRecord, LostRecords, pack_record, read_journal
from cgsa.live.store import MIGRATIONS, Store
from cgsa.live.store.store import read_store
from cgsa.live.worker import Worker, WorkerConfig
from tests.live.stream import MACHINE, blocks, signal
from tests.live.workers import diagnoses, make, notes, work

CONFIG = WorkerConfig(checkpoint_seconds=1e9, shed_above=60.0, keep=SignalRetention(before=0.0))
STATES = (0, 12, 20, 31)
"""Numbers of blocks after which the worker of the tests saves a state."""
BACKED_UP = 40
"""Number of blocks before the backup."""


class Running:
    """A worker with its store in the folder of a service."""

    def __init__(self, plant: Path) -> None:
        self.plant = plant
        self.store = Store(plant / "store.sqlite")
        self.worker: Worker = make(plant / "machines", self.store, CONFIG)
        self.worker._journal._segment_bytes = 8000

    def feed(self, begin: int, end: int | None = None) -> None:
        for number, block in list(enumerate(blocks(signal(6.0, "wear"))))[begin:end]:
            self.worker.submit(block)
            work(self.worker)
            if number in STATES:
                self.worker.save()

    def close(self) -> None:
        self.worker.close()
        self.store.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path / "plant")
    found.feed(0, BACKED_UP)
    yield found
    found.close()


def resumed(plant: Path) -> Running:
    found = Running(plant)
    work(found.worker)
    return found


def test_a_restored_service_has_the_same_verdicts(running: Running, tmp_path: Path) -> None:
    made = back_up(running.plant, tmp_path / "backup")
    assert made.machines == (MACHINE,)
    running.feed(BACKED_UP)
    expected, cases = diagnoses(running.store), running.worker.watch.alarms.case
    restore(tmp_path / "backup", tmp_path / "again")
    again = resumed(tmp_path / "again")
    again.feed(BACKED_UP)
    assert diagnoses(again.store) == expected
    assert again.worker.watch.alarms.case == cases
    assert again.worker.watch.counts.gaps == 0
    assert notes(again.store) == notes(running.store)
    again.close()


def test_what_happens_during_the_backup_is_consistent(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are saved and segments forgotten between any two steps of the backup, and while the store is copied."""
    fed = iter(range(BACKED_UP, 60))
    copied, copy_journal = create._Backup._copy, create._Backup._copy_journal

    def go_on() -> None:
        number = next(fed, None)
        if number is not None:
            running.feed(number, number + 1)
            running.worker.save()

    def copy(backup: create._Backup, path: Path) -> None:
        copied(backup, path)
        go_on()

    def copy_of_journal(backup: create._Backup, journal: create._HeldJournal) -> None:
        go_on()
        copy_journal(backup, journal)

    def look(journal: create._HeldJournal) -> None:
        open_new(journal)
        go_on()
        open_new(journal)

    open_new = create._HeldJournal.open_new
    monkeypatch.setattr(create._Backup, "_copy", copy)
    monkeypatch.setattr(create._Backup, "_copy_journal", copy_of_journal)
    monkeypatch.setattr(create._HeldJournal, "open_new", look)
    monkeypatch.setattr(create, "PAGES_PER_STEP", 4)
    begin = running.worker._journal.begin
    back_up(running.plant, tmp_path / "backup")
    monkeypatch.undo()
    assert running.worker._journal.begin > begin
    running.feed(next(fed, 60))
    expected = diagnoses(running.store)
    restore(tmp_path / "backup", tmp_path / "again")
    again = resumed(tmp_path / "again")
    assert not [entry for entry in read_journal(again.worker.folder / "journal") if isinstance(entry, LostRecords)]
    again.feed(again.worker._journal.end)
    assert diagnoses(again.store) == expected
    assert again.worker.watch.counts == running.worker.watch.counts
    again.close()


def test_a_backup_while_blocks_come(running: Running, tmp_path: Path) -> None:
    feeding = threading.Thread(target=running.feed, args=(BACKED_UP,))
    feeding.start()
    back_up(running.plant, tmp_path / "backup")
    feeding.join()
    restore(tmp_path / "backup", tmp_path / "again")
    again = resumed(tmp_path / "again")
    again.feed(again.worker._journal.end)
    assert diagnoses(again.store) == diagnoses(running.store)
    again.close()


def test_a_record_in_the_making_is_not_copied(running: Running, tmp_path: Path) -> None:
    journal = running.worker.folder / "journal"
    last = max(journal.glob("*.journal"))
    whole = last.read_bytes()
    last.write_bytes(whole + pack_record(running.worker.position, "block", b"x" * 100)[:60])
    back_up(running.plant, tmp_path / "backup")
    last.write_bytes(whole)
    copy = tmp_path / "backup" / last.relative_to(running.plant)
    assert copy.read_bytes() == whole


def test_all_other_files_are_in_it(running: Running, tmp_path: Path) -> None:
    plant = running.plant
    (plant / "sources").mkdir()
    with closing(sqlite3.connect(plant / "sources" / "folder.sqlite")) as database, database:
        database.execute("CREATE TABLE taken (name)")
        database.execute("INSERT INTO taken VALUES ('a.csv')")
    (plant / "outbox").mkdir()
    (plant / "outbox" / "progress.json").write_text('{"desk": 2}')
    with Journal(plant / "outbox" / "letters") as letters:
        letters.append("letter", b"{}")
    kept = running.worker.folder / "kept"
    kept.mkdir(exist_ok=True)
    (kept / "00000000000000000001.journal").write_bytes(b"old")
    for name in ("login-link", "store.sqlite.damaged-1", "store.sqlite.first-page"):
        (plant / name).write_text("x")
    back_up(plant, tmp_path / "backup")
    (plant / "store.sqlite.damaged-1").unlink()
    files = set(read_manifest(tmp_path / "backup").files)
    others = {name for name in files if not name.startswith(f"machines/{MACHINE}/")}
    assert others == {
        "outbox/letters/00000000000000000000.journal",
        "outbox/progress.json",
        "sources/folder.sqlite",
        "store.sqlite",
    }
    assert f"machines/{MACHINE}/kept/00000000000000000001.journal" in files
    assert not any(name.endswith("lock") for name in files)
    restore(tmp_path / "backup", tmp_path / "again")
    with closing(sqlite3.connect(tmp_path / "again" / "sources" / "folder.sqlite")) as database:
        assert database.execute("SELECT * FROM taken").fetchall() == [("a.csv",)]
    (entry,) = read_journal(tmp_path / "again" / "outbox" / "letters")
    assert isinstance(entry, JournalRecord)


def test_nothing_is_overwritten(running: Running, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    with pytest.raises(DataError, match="exists already; choose another folder"):
        back_up(running.plant, tmp_path / "there")
    back_up(running.plant, tmp_path / "backup")
    with pytest.raises(DataError, match="exists already; move it away first"):
        restore(tmp_path / "backup", running.plant)
    with pytest.raises(DataError, match="exists already; move it away first"):
        restore(tmp_path / "backup", tmp_path / "there")
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "backup", tmp_path / "empty")


def test_an_interrupted_backup_leaves_nothing(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write_manifest", "copy_hashed", "check_files"):
        with monkeypatch.context() as patch:
            patch.setattr(create, name, full)
            with pytest.raises(DataError, match="No space left on device"):
                back_up(running.plant, tmp_path / "backup")
        assert [path.name for path in tmp_path.iterdir()] == ["plant"]


def test_a_killed_backup_does_not_pass_for_one(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves has another name, and no description."""
    with pytest.raises(DataError, match="no backup here"), replacing(tmp_path / "backup", DataError) as fresh:
        fresh.mkdir()
        monkeypatch.setattr(create, "write_manifest", lambda *_: None)
        with create._Backup(running.plant, fresh) as backup:
            backup.run()
        restore(fresh, tmp_path / "again")
    with pytest.raises(DataError, match="no backup here"):
        restore(tmp_path, tmp_path / "again")


def test_a_damaged_backup_is_refused_with_all_that_is_wrong(running: Running, tmp_path: Path) -> None:
    back_up(running.plant, tmp_path / "backup")
    states = sorted((tmp_path / "backup" / "machines" / MACHINE / "states").iterdir())
    states[0].unlink()
    data = bytearray(states[1].read_bytes())
    data[-1] ^= 1
    states[1].write_bytes(data)
    with pytest.raises(DataError, match=rf"{states[0].name} \(No such file.*{states[1].name} \(its hash differs\)"):
        restore(tmp_path / "backup", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_newer_and_odd_backups_are_refused(running: Running, tmp_path: Path) -> None:
    back_up(running.plant, tmp_path / "backup")
    path = tmp_path / "backup" / manifest.MANIFEST
    good = json.loads(path.read_text())
    wrong: list[tuple[object, str]] = [
        ({**good, "version": 2}, "backup of version 2, made by cgsa"),
        ({**good, "store_version": len(MIGRATIONS) + 1}, f"this cgsa reads versions up to {len(MIGRATIONS)}; install"),
        ({**good, "format": "other"}, "not the description of a backup"),
        ({**good, "files": 3}, "'files' is no table"),
        ({**good, "files": {"../x": {"bytes": 1, "sha256": ""}}}, "'../x' is outside of the backup"),
        ({**good, "machines": 3}, "machines"),
        ([], "not the description of a backup"),
    ]
    for text, message in wrong:
        path.write_text(json.dumps(text))
        with pytest.raises(DataError, match=message):
            restore(tmp_path / "backup", tmp_path / "again")
    path.write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        read_manifest(tmp_path / "backup")


def test_files_are_for_their_owner_alone(running: Running, tmp_path: Path) -> None:
    back_up(running.plant, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    for folder in ("backup", "again"):
        assert (tmp_path / folder).stat().st_mode & 0o77 == 0
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "again").rglob("*") if path.is_file()}
    assert modes == {0o600}


def test_a_folder_without_a_store_is_no_service(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no store here"):
        back_up(tmp_path, tmp_path / "backup")


def test_the_store_of_a_backup_can_be_read_where_it_is(running: Running, tmp_path: Path) -> None:
    back_up(running.plant, tmp_path / "backup")
    os.chmod(tmp_path / "backup", 0o500)  # noqa: PTH101 - a folder that is read-only
    with read_store(tmp_path / "backup" / "store.sqlite") as snapshot:
        assert snapshot.diagnoses(MACHINE).rows
    assert replace(read_manifest(tmp_path / "backup"), files={}).store_version == len(MIGRATIONS)
