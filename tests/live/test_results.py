from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cgsa.events import AlarmChange, Event
from cgsa.live.intake.block import Block
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK
from cgsa.live.worker import Worker, WorkerConfig
from tests.live.stream import BEGUN, MACHINE, blocks, signal
from tests.live.workers import make, notes, work
from tests.machines import RATE


def test_the_waveform_around_an_alarm_is_stored(tmp_path: Path, store: Store) -> None:
    config = WorkerConfig(checkpoint_seconds=1e9, snippet_before=0.5, snippet_after=0.2)
    worker = make(tmp_path, store, config)
    samples = signal(8.0)
    received: list[Event] = []
    worker._on_events = lambda _, events: received.extend(events)
    for block in blocks(samples):
        worker.submit(block)
        work(worker)
        worker.tick()
    alarm = next(event for event in received if isinstance(event, AlarmChange) and event.notify)
    store.flush()
    with store.read() as snapshot:
        (snippet,) = snapshot.snippets(MACHINE, case=1).rows
    assert snippet.time <= alarm.time - 0.5
    begin = round((snippet.time - BEGUN) * RATE)
    assert np.array_equal(snippet.samples, samples[:, begin : begin + snippet.samples.shape[1]])
    assert snippet.time + snippet.samples.shape[1] / RATE >= alarm.time + 0.2
    worker.close()


def work_until_alarm(worker: Worker, sent: Iterator[Block]) -> AlarmChange:
    """Submit and process blocks until an alarm notifies."""
    found: list[Event] = []
    worker._on_events = lambda _, events: found.extend(events)
    for block in sent:
        worker.submit(block)
        work(worker)
        for event in found:
            if isinstance(event, AlarmChange) and event.notify:
                return event
    raise AssertionError("no alarm was raised")


@pytest.mark.parametrize("killed", [True, False])
def test_the_waveform_is_stored_after_a_restart_between_alarm_and_signal(
    tmp_path: Path, store: Store, *, killed: bool
) -> None:
    config = WorkerConfig(checkpoint_seconds=1e9, snippet_before=0.5, snippet_after=0.5)
    worker = make(tmp_path, store, config)
    sent = iter(blocks(signal(8.0)))
    alarm = work_until_alarm(worker, sent)
    worker.tick()
    worker.save()
    if killed:
        worker._journal.close()
    else:
        worker.close()
    store.flush()
    again = make(tmp_path, store, config)
    for block in sent:
        again.submit(block)
        work(again)
        again.tick()
    store.flush()
    with store.read() as snapshot:
        (snippet,) = snapshot.snippets(MACHINE, case=1).rows
        assert snapshot.alarms_without_snippet(MACHINE, 0) == ()
    assert snippet.time <= alarm.time - 0.5
    assert snippet.time + snippet.samples.shape[1] / RATE >= alarm.time + 0.5
    again.close()


def test_a_block_of_another_version_is_noted_and_left_out_of_the_waveform(tmp_path: Path, store: Store) -> None:
    config = WorkerConfig(checkpoint_seconds=1e9, snippet_before=0.5, snippet_after=0.2)
    worker = make(tmp_path, store, config)
    sent = iter(blocks(signal(8.0)))
    work_until_alarm(worker, sent)
    payload = bytearray(next(sent).to_bytes())
    payload[4] += 1
    worker._append(BLOCK, bytes(payload))
    for block in sent:
        worker.submit(block)
        work(worker)
        worker.tick()
    store.flush()
    assert any("version" in note.text for note in notes(store))
    assert worker.status().problem is None
    with store.read() as snapshot:
        assert snapshot.snippets(MACHINE, case=1).rows
    worker.close()
