from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from cgsa.errors import ConfigError, DataError
from cgsa.live.checkpoint import Checkpoints
from cgsa.live.journal import Journal
from cgsa.live.segments import HEAD, MAX_PAYLOAD_BYTES, JournalRecord, read_journal
from tests.live import child_processes
from tests.live.faults import failing, messages_of, messages_until_killed, payload
from tests.live.journals import PAYLOADS, check_tiles, check_true, segments, write


def test_records_are_read_from_any_position_by_writer_and_readers(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=100) as journal:
        assert (journal.begin, journal.end, list(journal.read(0))) == (0, 0, [])
        assert [journal.append("block", text) for text in PAYLOADS] == list(range(5))
        expected = [JournalRecord(position, "block", text) for position, text in enumerate(PAYLOADS)]
        for begin in range(6):
            assert list(journal.read(begin)) == list(read_journal(tmp_path, begin)) == expected[begin:]
        assert list(read_journal(tmp_path)) == expected
        assert len(segments(tmp_path)) > 1
        assert journal.notes == ()
    with Journal(tmp_path) as again:
        assert (again.begin, again.end, again.notes) == (0, 5, ())
        assert again.append("command", b"freeze") == 5
        assert list(again.read(5)) == [JournalRecord(5, "command", b"freeze")]


def test_a_full_segment_is_followed_by_another(tmp_path: Path) -> None:
    size = HEAD.size + 10
    with Journal(tmp_path, segment_bytes=3 * size) as journal:
        for _ in range(7):
            journal.append("block", bytes(10))
        journal.append("block", bytes(100 * size))
        journal.append("block", b"")
    assert [(int(path.stem), path.stat().st_size) for path in segments(tmp_path)] == [
        (0, 3 * size),
        (3, 3 * size),
        (6, size),
        (7, HEAD.size + 100 * size),
        (8, HEAD.size),
    ]


def test_only_complete_segments_are_removed_and_never_the_last(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=2 * HEAD.size) as journal:
        for _ in range(7):
            journal.append("block", b"")
        assert journal.forget(1) == 0
        assert journal.forget(3) == 1
        assert (journal.begin, journal.end) == (2, 7)
        assert [entry.position for entry in journal.read(3)] == [3, 4, 5, 6]
        with pytest.raises(DataError, match="holds positions 2 to 7; position 1 is not there"):
            journal.read(1)
        with pytest.raises(DataError, match="position 8 is not there"):
            journal.read(8)
        with pytest.raises(DataError, match="begins at position 2; position 0 is not there any more"):
            read_journal(tmp_path, 0)
        assert journal.forget(100) == 2
        assert (journal.begin, journal.end) == (6, 7)
    with Journal(tmp_path) as again:
        assert (again.begin, again.end) == (6, 7)


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("", 0, "expected at most 12 small letters"),
        ("a kind of block", 0, "expected at most 12 small letters"),
        ("Übel", 0, "expected at most 12 small letters"),
        ("block", MAX_PAYLOAD_BYTES + 1, "takes at most 16777216"),
    ],
)
def test_invalid_records_are_refused(tmp_path: Path, kind: str, size: int, message: str) -> None:
    with Journal(tmp_path) as journal:
        with pytest.raises(DataError, match=message):
            journal.append(kind, bytes(size))
        assert journal.append("twelve_chars", b"") == 0


def test_a_segment_size_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected at least 1"):
        Journal(tmp_path, segment_bytes=0)


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        with pytest.raises(DataError, match=f"is being written by process {os.getpid()}; a journal has one writer"):
            Journal(tmp_path)
        # The refused process has not released the lock of the other.
        with pytest.raises(DataError, match="one writer"):
            Journal(tmp_path)
        journal.append("block", b"x")
        assert [entry.position for entry in read_journal(tmp_path)] == [0]
    Journal(tmp_path).close()


def test_a_closed_journal_can_be_read_but_not_written(tmp_path: Path) -> None:
    write(tmp_path)
    journal = Journal(tmp_path)
    journal.close()
    journal.close()
    calls: list[Callable[[], object]] = [
        lambda: journal.append("block", b""),
        journal.sync,
        lambda: journal.forget(3),
        lambda: journal.advance(9),
    ]
    for call in calls:
        with pytest.raises(DataError, match="was closed"):
            call()
    check_true(check_tiles(list(journal.read(0)), 0, 5))


def test_a_path_that_cannot_hold_a_journal_is_named(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(DataError, match="no journal can be kept here"):
        Journal(blocker / "below")
    with pytest.raises(DataError, match="no journal can be read here"):
        read_journal(blocker)


@pytest.mark.parametrize("segment_bytes", [90, 2**20])
def test_every_truncation_keeps_all_complete_records(tmp_path: Path, segment_bytes: int) -> None:
    write(tmp_path, segment_bytes=segment_bytes)
    last = segments(tmp_path)[-1]
    data, first = last.read_bytes(), int(last.stem)
    ends = [0]
    for text in PAYLOADS[first:]:
        ends.append(ends[-1] + HEAD.size + len(text))
    for length in range(len(data)):
        last.write_bytes(data[:length])
        whole = sum(end <= length for end in ends) - 1
        with Journal(tmp_path) as journal:
            assert journal.end == first + whole
            assert bool(journal.notes) == (length not in ends)
            assert all("never acknowledged" in note for note in journal.notes)
            assert last.stat().st_size == ends[whole]
            assert journal.append("block", PAYLOADS[journal.end]) == first + whole
            check_true(check_tiles(list(journal.read(0)), 0, first + whole + 1))
        with Journal(tmp_path) as again:
            assert again.notes == ()


def test_an_end_of_zeros_is_kept_and_the_journal_continues_after_it(tmp_path: Path) -> None:
    """Some file systems leave this after a power failure."""
    write(tmp_path)
    path = segments(tmp_path)[0]
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(3 * HEAD.size + 5))
    with Journal(tmp_path) as journal:
        assert journal.end == 8
        (note,) = journal.notes
        assert note.startswith("records 5 to 7 are lost")
        assert f"from byte {whole} to its end" in note
        assert journal.append("block", b"next") == 8
        assert check_tiles(list(journal.read(0)), 0, 9)[-1].payload == b"next"
    assert path.stat().st_size == whole + 3 * HEAD.size + 5


def test_reading_ends_where_the_journal_ended_at_its_start(tmp_path: Path) -> None:
    write(tmp_path)
    with Journal(tmp_path) as journal:
        reading = journal.read(3)
        assert next(reading).position == 3
        journal.append("block", b"")
        assert [entry.position for entry in reading] == [4]
        assert [entry.position for entry in journal.read(5)] == [5]


def test_every_failing_call_leaves_the_journal_unchanged(tmp_path: Path) -> None:
    seen: set[str] = set()
    for lasting in (False, True):
        for fail_at in count(1):
            folder = tmp_path / f"{lasting}-{fail_at}" / "deep"
            acknowledged: dict[int, bytes] = {}
            errors: list[str] = []
            with failing(fail_at, lasting=lasting) as faults:
                try:
                    journal = Journal(folder, segment_bytes=200)
                except DataError as problem:
                    # With space again, opening works.
                    faults.lifted, errors = True, [str(problem)]
                    journal = Journal(folder, segment_bytes=200)
                for number in range(8):
                    text = bytes([number]) * (20 + number)
                    try:
                        acknowledged[journal.append("block", text)] = text
                        if number % 3 == 2:
                            journal.sync()
                            assert journal.synced == journal.end
                        journal.forget(4)
                    except DataError as problem:
                        errors.append(str(problem))
                reached, faults.lifted = faults.reached, True
                seen |= set(faults.calls)
                acknowledged[journal.append("block", b"room again")] = b"room again"
                journal.sync()
            expected = [JournalRecord(position, "block", text) for position, text in acknowledged.items()]
            assert [record.position for record in expected] == list(range(len(expected)))
            assert list(journal.read(journal.begin)) == expected[journal.begin :]
            journal.close()
            with Journal(folder) as again:
                assert list(again.read(again.begin)) == expected[again.begin :]
                assert again.notes == ()
            assert all("No space left on device" in problem for problem in errors)
            if not reached:
                assert not errors
                break
        assert fail_at > 15
    assert seen == {"mkdir", "open", "pwrite", "ftruncate", "fsync", "unlink"}


def test_a_failed_sync_stays_in_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with Journal(tmp_path) as journal:
        journal.append("block", b"")
        journal.sync()
        journal.append("block", b"")
        journal.append("block", b"")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(DataError, match="records 1 to 2 are not safe from a power failure"):
                journal.sync()
        assert journal.synced == 1
        journal.sync()
        assert journal.synced == 3
        assert len(journal.notes) == 1


def test_sync_flushes_file_and_folder_only_if_there_is_something_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    true = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        true(handle)

    folder = tmp_path / "journal"
    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(folder, segment_bytes=2 * HEAD.size) as journal:
        assert synced == [tmp_path.name]
        names = [f"{first:020d}.journal" for first in (0, 2)]
        steps: list[tuple[Callable[[], object], list[str]]] = [
            (journal.sync, []),
            (lambda: journal.append("block", b""), []),
            (journal.sync, [names[0], "journal"]),
            (journal.sync, []),
            (lambda: journal.append("block", b""), []),
            # A new segment starts when the previous one is on the disk.
            (lambda: journal.append("block", b""), [names[0]]),
            (journal.sync, [names[1], "journal"]),
        ]
        for step, expected in steps:
            synced.clear()
            step()
            assert synced == expected
    with Journal(folder) as again:
        # What the previous process had synced is unknown.
        synced.clear()
        again.sync()
        assert synced == [names[1], "journal"]


def test_an_append_reaches_the_file_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for size in (0, 5, 1000):
            before = sum(path.stat().st_size for path in segments(tmp_path))
            journal.append("block", bytes(size))
            assert sum(path.stat().st_size for path in segments(tmp_path)) == before + HEAD.size + size


def test_a_journal_that_lost_records_advances_to_a_later_position(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("block", b"")
        journal.advance(1)
        journal.advance(5)
        (note,) = journal.notes
        assert "records 1 to 4 are given up" in note
        assert [(entry.position, entry.end) for entry in journal.read(0)] == [(0, 1), (1, 5)]
        assert journal.append("block", b"") == 5
        journal.sync()
        assert [(entry.position, entry.end) for entry in journal.read(0)] == [(0, 1), (1, 5), (5, 6)]
    with Journal(tmp_path) as again:
        assert (again.begin, again.end) == (0, 6)
        assert [entry.position for entry in again.read(3)] == [3, 5]


def test_a_lost_journal_starts_at_a_later_position(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.advance(100)
        assert (journal.begin, journal.end) == (100, 100)
        assert journal.append("block", b"") == 100
    with Journal(tmp_path) as again:
        assert (again.begin, again.end) == (100, 101)


def test_threads_append_sync_and_read_concurrently(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=5000) as journal:

        def append() -> None:
            for _ in range(200):
                journal.append("block", bytes(100))
                journal.sync()

        threads = [Thread(target=append) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            end, entries = journal.end, list(journal.read(0))
            assert len(check_tiles(entries, 0, len(entries))) >= end
        assert len(check_tiles(list(journal.read(0)), 0, 600)) == 600
        journal.sync()
        assert journal.synced == 600


def test_a_full_disk_loses_only_refused_records(tmp_path: Path) -> None:
    messages = messages_of(child_processes.append_until_full, tmp_path)
    size = HEAD.size + 100
    fit = 1000 // size
    assert messages[:fit] == [("record", position) for position in range(fit)]
    assert all(kind == "refused" and "File too large" in text for kind, text in messages[fit:-1])
    assert len(messages) == 21
    assert messages[-1] == ("record", fit)
    with Journal(tmp_path) as journal:
        assert journal.notes == ()
        expected = [bytes([number]) * 100 for number in range(fit)] + [b"after"]
        assert [record.payload for record in check_tiles(list(journal.read(0)), 0, fit + 1)] == expected


def test_a_killed_process_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """Journal and states of one watch, killed thirty times while it works."""
    chance = random.Random(7)  # noqa: S311 - test data
    for _ in range(30):
        messages = messages_until_killed(child_processes.watch, tmp_path, chance.uniform(0, 0.03))
        records = [message[1] for message in messages if message[0] == "record"]
        states = [message[1:] for message in messages if message[0] == "state"]
        assert records
        with Journal(tmp_path / "journal", segment_bytes=child_processes.SEGMENT_BYTES) as journal:
            assert journal.end > records[-1]
            found = check_tiles(list(journal.read(journal.begin)), journal.begin, journal.end)
            assert len(found) == journal.end - journal.begin
            assert all(record.payload == payload(record.position) for record in found)
            assert all("never acknowledged" in note for note in journal.notes)
            checkpoints = Checkpoints(tmp_path / "states", retention=child_processes.RETENTION)
            newest = checkpoints.newest()
            assert checkpoints.notes == ()
            if states:
                assert newest is not None
                assert (newest.saved.number, newest.saved.position) >= states[-1]
            if newest is not None:
                assert journal.begin <= newest.saved.position <= journal.end
                expected = child_processes.state(newest.saved.position)
                assert newest.tensors.keys() == expected.keys()
                assert all(bool((newest.tensors[name] == expected[name]).all()) for name in expected)
    assert newest is not None
    checkpoints.save(0, {}, {}, time=0.0)
    assert not [path for path in (tmp_path / "states").iterdir() if path.suffix != ".state"]
