from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.live.journal import Journal
from cgsa.live.segments import HEAD, JournalRecord, LostRecords, pack_record, read_journal
from tests.live.faults import flips
from tests.live.journals import PAYLOADS, check_tiles, check_true, segments, write


def test_the_format_is_stable(tmp_path: Path) -> None:
    """Later versions must read these bytes: a change of them needs another marker."""
    with Journal(tmp_path) as journal:
        journal.append("block", b"")
        journal.append("command", b"xyz")
    assert segments(tmp_path)[0].name == "00000000000000000000.journal"
    assert segments(tmp_path)[0].read_bytes() == (
        b"CGJ1" + b"block" + bytes(7) + bytes(8) + bytes(4) + bytes(4) + b"\xfc\x0f\xb6\xa6"
        b"CGJ1" + b"command" + bytes(5) + b"\1" + bytes(7) + b"\3\0\0\0" + b"\x67\xba\x8e\xeb" + b"\x26\x31\x10\x65"
        b"xyz"
    )


def test_a_segment_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.journal").mkdir()
    with pytest.raises(DataError, match=r"0\.journal: cannot be read .*; moved away, it would read as lost"):
        Journal(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        list(read_journal(tmp_path))


@pytest.mark.parametrize("segment_bytes", [90, 2**20])
def test_every_flipped_bit_loses_one_record_only(tmp_path: Path, segment_bytes: int) -> None:
    write(tmp_path, segment_bytes=segment_bytes)
    whole = {path: path.read_bytes() for path in segments(tmp_path)}
    for damaged, before in whole.items():
        hits = [p for p in range(int(damaged.stem), 5) for _ in range(HEAD.size + len(PAYLOADS[p]))]
        for place, changed in flips(before):
            for path in segments(tmp_path):
                path.unlink()
            for path, data in whole.items():
                path.write_bytes(changed if path == damaged else data)
            with Journal(tmp_path) as journal:
                entries = list(journal.read(0))
                records = check_tiles(entries, 0, journal.end)
                check_true(records)
                assert [record.position for record in records] == [p for p in range(5) if p != hits[place]]
                lost = [entry for entry in entries if isinstance(entry, LostRecords)]
                assert [entry.position for entry in lost] == [hits[place]]
                assert journal.notes == (tuple(map(str, lost)) if damaged == max(whole) else ())
                # A position is not reused, since a state may rely on its record.
                position = journal.append("block", b"next")
                assert position >= 5
            with Journal(tmp_path) as again:
                assert list(again.read(0)) == [*entries, JournalRecord(position, "block", b"next")]


def test_lost_records_are_described(tmp_path: Path) -> None:
    write(tmp_path)
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[HEAD.size] = 0  # the marker of record 1
    path.write_bytes(data)
    with Journal(tmp_path) as journal:
        assert journal.notes == (f"record 1 is lost: {path} is damaged between bytes 36 and 73",)
        assert [str(entry) for entry in journal.read(1) if isinstance(entry, LostRecords)] == list(journal.notes)


def test_a_record_at_another_position_is_rejected(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for number in range(4):
            journal.append("block", bytes([number]) * 10)
    path = segments(tmp_path)[0]
    size = HEAD.size + 10
    data = path.read_bytes()
    path.write_bytes(data[:size] + data[:size] + data[2 * size :])
    with Journal(tmp_path) as journal:
        assert [type(entry) for entry in journal.read(0)] == [JournalRecord, LostRecords, JournalRecord, JournalRecord]
        path.rename(tmp_path / "00000000000000000100.journal")
        assert not [entry for entry in journal.read(0) if isinstance(entry, JournalRecord)]


@pytest.mark.parametrize("position", [0, 1, 3, 10**6])
def test_a_record_within_a_record_is_rejected(tmp_path: Path, position: int) -> None:
    """The skipped bytes held the lost record, and no more records than fit into them."""
    with Journal(tmp_path) as journal:
        for text in (b"first", pack_record(position, "command", b"forged"), b"last"):
            journal.append("block", text)
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[HEAD.size + len(b"first")] ^= 1
    path.write_bytes(data)
    with Journal(tmp_path) as journal:
        first, lost, last = journal.read(0)
        assert (first, last) == (JournalRecord(0, "block", b"first"), JournalRecord(2, "block", b"last"))
        assert (lost.position, lost.end) == (1, 2)


def test_a_missing_segment_reads_as_lost(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=2 * HEAD.size) as journal:
        for _ in range(6):
            journal.append("block", b"")
        segments(tmp_path)[1].unlink()
        assert [(entry.position, entry.end) for entry in journal.read(1)] == [(1, 2), (2, 4), (4, 5), (5, 6)]
        assert [(entry.position, entry.end) for entry in journal.read(3)] == [(3, 4), (4, 5), (5, 6)]
        # A missing oldest segment counts as removed, but not for a reader that asks for its positions.
        segments(tmp_path)[0].unlink()
        assert [(entry.position, entry.end) for entry in journal.read(0)] == [(0, 4), (4, 5), (5, 6)]
        assert journal.forget(100) == 2


def test_a_reader_reports_segments_removed_meanwhile_as_lost(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=HEAD.size) as journal:
        for _ in range(4):
            journal.append("block", b"")
        reading = journal.read(0)
        assert next(reading).position == 0
        journal.forget(3)
        assert [(type(entry), entry.position, entry.end) for entry in reading] == [
            (LostRecords, 1, 2),
            (LostRecords, 2, 3),
            (JournalRecord, 3, 4),
        ]


@given(st.data())
def test_any_damage_loses_only_the_records_it_touches(data: st.DataObject) -> None:
    chance = random.Random(data.draw(st.integers(0, 2**32)))  # noqa: S311 - test data
    payloads = [chance.randbytes(chance.choice((0, 1, 7, 50, 300))) for _ in range(12)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        with Journal(folder, segment_bytes=data.draw(st.sampled_from((60, 400, 10_000)))) as journal:
            for text in payloads:
                journal.append("block", text)
        touched: set[int] = set()
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from(segments(folder)))
            raw = bytearray(path.read_bytes())
            begin = data.draw(st.integers(0, len(raw) - 1))
            end = data.draw(st.integers(begin + 1, min(len(raw), begin + 400)))
            raw[begin:end] = chance.randbytes(end - begin) if data.draw(st.booleans()) else bytes(end - begin)
            path.write_bytes(raw)
            place = 0
            for position in range(int(path.stem), 12):
                size = HEAD.size + len(payloads[position])
                if place < end and place + size > begin:
                    touched.add(position)
                place += size
        with Journal(folder) as journal:
            records = check_tiles(list(journal.read(0)), 0, journal.end)
            assert all(record.payload == payloads[record.position] for record in records)
            assert {record.position for record in records} >= set(range(12)) - touched
            assert journal.append("block", b"next") >= 12


def test_a_reader_stops_before_a_record_that_is_being_written(tmp_path: Path) -> None:
    write(tmp_path)
    path = segments(tmp_path)[0]
    data = path.read_bytes()
    for length in range(len(data) - HEAD.size - len(PAYLOADS[-1]), len(data)):
        path.write_bytes(data[:length])
        assert [entry.position for entry in read_journal(tmp_path)] == [0, 1, 2, 3]
