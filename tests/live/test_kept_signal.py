from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.events import AlarmChange, Case, Event, Label
from cgsa.live import worker as worker_module
from cgsa.live.intake.block import Block
from cgsa.live.journal import Journal
from cgsa.live.kept_signal import KeptSignal, SignalRetention, segment_span
from cgsa.live.labelled_signal import LabelledInterval, read_labelled_signal
from cgsa.live.segments import JournalRecord, list_segments, read_journal
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, COMMAND
from cgsa.live.worker import WorkerConfig
from tests.live.stream import BEGUN, MACHINE, blocks, signal
from tests.live.workers import make, work
from tests.machines import RATE

SECONDS = 40
"""Of the stream: one block of 10 samples per second."""


def write_stream(journal: Journal) -> None:
    for number in range(SECONDS):
        samples = np.full((1, 10), number, np.float32)
        journal.append(BLOCK, Block(MACHINE, number, float(number), 10.0, ("x",), samples).to_bytes())
        journal.append(COMMAND, b"{}")


def alarm_at(time: float) -> AlarmChange:
    case = Case(1, "raised", "high", "worn", ("worn",), time, time)
    return AlarmChange(MACHINE, time, "opened", "worn", notify=True, case=case)


def seconds_in(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    records = [one for one in read_journal(folder) if isinstance(one, JournalRecord) and one.kind == BLOCK]
    return {int(Block.from_bytes(one.payload).time) for one in records}


@settings(max_examples=12)
@given(
    alarms=st.lists(st.integers(0, SECONDS).map(float), max_size=3),
    labels=st.lists(st.tuples(st.integers(0, SECONDS), st.integers(1, 5)), max_size=2),
    margins=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    segment=st.integers(300, 3000),
)
def test_what_is_around_alarms_and_in_labels_is_kept(
    tmp_path_factory: pytest.TempPathFactory,
    alarms: list[float],
    labels: list[tuple[int, int]],
    margins: tuple[int, int],
    segment: int,
) -> None:
    before, after = margins
    folder = tmp_path_factory.mktemp("kept")
    with Store(folder / "store.sqlite") as store, Journal(folder / "journal", segment_bytes=segment) as journal:
        write_stream(journal)
        for place, time in enumerate(alarms):
            store.add(place, 0, alarm_at(time))
        for place, (begin, length) in enumerate(labels):
            store.add(100 + place, 0, Label(MACHINE, 99.0, "ann", "worn", float(begin), float(begin + length)))
        store.flush()
        kept = KeptSignal(MACHINE, folder / "kept", store, SignalRetention(before, after))
        journal.forget(journal.end, kept.take)
    wanted = {
        second
        for second in range(SECONDS)
        if any(time - before < second + 1 and second < time + after for time in alarms)
        or any(begin < second + 1 and second < begin + length for begin, length in labels)
    }
    there = seconds_in(folder / "kept"), seconds_in(folder / "journal")
    assert wanted <= there[0] | there[1]
    assert not there[0] & there[1]
    if not wanted:
        assert there[0] == set()
    for first in list_segments(folder / "kept") if (folder / "kept").is_dir() else ():
        span = segment_span(folder / "kept" / f"{first:020d}.journal") or (0.0, 0.0)
        assert wanted & set(range(int(span[0]), int(span[1])))


def test_the_budget_removes_the_oldest(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store, Journal(tmp_path / "journal", segment_bytes=1000) as journal:
        write_stream(journal)
        for time in (5.0, 30.0):
            store.add(int(time), 0, alarm_at(time))
        store.flush()
        kept = KeptSignal(MACHINE, tmp_path / "kept", store, SignalRetention(2, 2, megabytes=0.0015))
        journal.forget(journal.end, kept.take)
    assert sum(path.stat().st_size for path in (tmp_path / "kept").iterdir()) <= 1500
    assert {30, 31} <= seconds_in(tmp_path / "kept")
    assert 5 not in seconds_in(tmp_path / "kept")


def test_a_late_label_is_collected_with_the_time_around_its_alarm(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "Journal", partial(Journal, segment_bytes=4000))
    retention = SignalRetention(before=1.0, after=1.0)
    worker = make(tmp_path, store, WorkerConfig(checkpoint_seconds=1e-9, shed_above=60.0, keep=retention))
    received: list[Event] = []
    worker._on_events = lambda _, events: received.extend(events)
    samples = np.concatenate([signal(8.0), *(signal(8.0, seed=seed) for seed in (1, 2))], axis=1)
    for number, block in enumerate(blocks(samples)):
        worker.submit(block)
        work(worker)
        if number % 8 == 0:
            worker.tick()
            store.flush()
    alarm = next(event for event in received if isinstance(event, AlarmChange) and event.notify)
    worker.close()
    segments = list_segments(tmp_path / MACHINE / "journal")
    assert (segment_span(tmp_path / MACHINE / "journal" / f"{segments[0]:020d}.journal") or (0, 0))[0] > alarm.time + 1
    interval = LabelledInterval(MACHINE, "worn", alarm.time - 1, alarm.time + 1)
    with store.read() as snapshot:
        (found,) = read_labelled_signal(tmp_path / MACHINE, snapshot, [interval])
    first = round((found.time - BEGUN) * RATE)
    assert found.samples.shape[1] == round((alarm.time + 1 - max(BEGUN, alarm.time - 1)) * RATE)
    np.testing.assert_array_equal(found.samples, samples[:, first : first + found.samples.shape[1]])


def test_negative_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="before -1, after 60, megabytes 1024; expected 0 or more"):
        SignalRetention(before=-1)
