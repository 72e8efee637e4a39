from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.events import AlarmChange, Note
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.continuity import LATE, WRONG_CHANNELS, WRONG_ORDER, WRONG_RATE
from cgsa.live.intake.quality import DROP_OUT
from cgsa.live.intake.refusals import WRONG_CONDITION, WRONG_UNITS, RefusedBlockError
from cgsa.live.recent_blocks import MAX_RECENT
from cgsa.live.segments import JournalRecord
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, COMMAND
from cgsa.live.worker import Worker
from tests.live.stream import BEGUN, blocks, records, signal, watch
from tests.live.workers import make, work


@pytest.fixture
def worker(tmp_path: Path, store: Store) -> Worker:
    return make(tmp_path, store)


GOOD = blocks(signal(2.0))


@pytest.mark.parametrize(
    ("block", "reason", "text"),
    [
        (
            replace(GOOD[5], sample_rate=1200.0),
            WRONG_RATE,
            "sample rate 1200 Hz; expected 1000 Hz, to 0.1%: set the rate",
        ),
        (
            replace(GOOD[5], channels=("a", "c")),
            WRONG_CHANNELS,
            "channels a, c, without b; expected a, b, in this order",
        ),
        (replace(GOOD[5], channels=("b", "a")), WRONG_ORDER, "channels b, a; expected a, b, in this order"),
        (replace(GOOD[5], units={"a": "m/s^2"}), WRONG_UNITS, "channel 'a' in m/s^2; expected g: convert it"),
        (replace(GOOD[5], conditions={"sped": 1.0}), WRONG_CONDITION, "'sped'; the model knows torque (Nm)"),
        (replace(GOOD[5], sequence=2, time=GOOD[2].time + 0.01), LATE, "expected blocks in order"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_block_that_cannot_be_used_is_refused_with_reason_and_cure(
    worker: Worker, block: Block, reason: str, text: str
) -> None:
    for one in GOOD[:5]:
        worker.submit(one)
    work(worker)
    with pytest.raises(RefusedBlockError) as caught:
        worker.submit(block)
    assert caught.value.reason == reason
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"block of toy, sequence {block.sequence}: ")
    work(worker)
    status = worker.status()
    assert (status.counts.blocks, status.counts.refused_blocks) == (6, 1)
    assert status.last_refused is not None
    assert (status.last_refused.what, status.last_refused.reason) == ("block", reason)
    assert status.last_refused.sequence == block.sequence
    worker.submit(GOOD[5])
    work(worker)
    assert worker.status().counts.gaps == 0, "the stream continues as if it had not come"
    worker.close()


def test_known_units_in_another_spelling_are_accepted(worker: Worker) -> None:
    worker.submit(replace(GOOD[0], units={"a": " [g] "}))
    work(worker)
    assert worker.status().counts.refused_blocks == 0
    worker.close()


def test_a_block_sent_twice_is_accepted_also_after_a_restart(tmp_path: Path, store: Store) -> None:
    first = make(tmp_path, store)
    for block in GOOD[:5]:
        first.submit(block)
    work(first)
    first.submit(GOOD[3])
    work(first)
    first.close()
    second = make(tmp_path, store)
    second.submit(GOOD[4])
    work(second)
    status = second.status()
    assert status.counts.refused_blocks == 2
    assert status.last_refused is not None
    assert "sent twice" in status.last_refused.text
    second.close()


def test_only_the_newest_blocks_are_remembered(worker: Worker) -> None:
    many = blocks(np.tile(signal(6.0), (1, 5)))
    for block in many[: MAX_RECENT + 10]:
        worker.submit(block)
    work(worker)
    worker.submit(many[20])
    with pytest.raises(RefusedBlockError, match="duplicate or late"):
        worker.submit(many[5])
    worker.close()


def changes_of(worker: Worker) -> list[AlarmChange | Note]:
    found: list[AlarmChange | Note] = []
    worker._on_events = lambda _, events: found.extend(one for one in events if isinstance(one, AlarmChange | Note))
    work(worker)
    return found


def test_refused_blocks_raise_an_alarm_of_their_own_and_then_that_of_missing_data(worker: Worker) -> None:
    for block in blocks(np.tile(signal(6.0), (1, 12)))[:660]:
        wrong = replace(block, time=block.time + 20.0 * block.sequence, sample_rate=900.0)
        with pytest.raises(RefusedBlockError):
            worker.submit(wrong)
    found = changes_of(worker)
    alarms = [event for event in found if isinstance(event, AlarmChange)]
    assert [(event.fault, event.change, event.notify) for event in alarms] == [
        ("data refused", "opened", True),
        ("no data", "joined", False),
    ]
    assert alarms[0].text.startswith("46 blocks with 5.1 s of signal refused and none used: block of toy, sequence 45")
    assert alarms[0].case.severity == "medium"
    assert len([event for event in found if isinstance(event, Note)]) == 1, "one note for all of them"
    run = worker.status().refused_run
    assert run is not None
    assert (run.count, run.reason) == (660, "wrong rate")
    worker.close()


def test_a_single_block_with_an_absurd_time_raises_no_alarm(worker: Worker) -> None:
    sent = blocks(signal(6.0))
    for block in sent[:20]:
        worker.submit(block)
    worker.submit(replace(sent[20], time=sent[20].time + 3600.0))
    worker.submit(sent[21])
    found = changes_of(worker)
    assert worker.watch.counts.refused_blocks == 1
    assert not [event for event in found if isinstance(event, AlarmChange) and event.fault != "wear"]
    assert worker.status().refused_run is None
    worker.close()


def test_blocks_that_are_sent_twice_are_no_reason_for_an_alarm(worker: Worker) -> None:
    sent = [replace(block, time=block.time) for block in blocks(signal(6.0))]
    for block in [*sent, *sent]:
        worker.submit(block)
    found = changes_of(worker)
    assert worker.watch.counts.refused_blocks == 60
    assert not [event for event in found if isinstance(event, AlarmChange) and event.fault != "wear"]
    worker.close()


def wrong_clock(worker: Worker) -> list[Block]:
    """Let a sender whose clock is an hour ahead restart with the right one; return what it sends then."""
    sent = blocks(signal(6.0))
    for block in sent[:20]:
        worker.submit(replace(block, sequence=block.sequence + 10_000, time=block.time + 3600.0))
    work(worker)
    refused = 0
    right = [replace(block, sequence=n, time=BEGUN + 10.0 + 0.1 * n) for n, block in enumerate([*sent, *sent])]
    for block in right:
        try:
            worker.submit(block)
        except RefusedBlockError:
            refused += 1
    assert refused == len(right)
    return [replace(block, sequence=120 + n, time=BEGUN + 22.0 + 0.1 * n) for n, block in enumerate(sent)]


def test_an_operator_admits_a_sender_whose_clock_was_ahead(worker: Worker) -> None:
    later = wrong_clock(worker)
    alarms = [event for event in changes_of(worker) if isinstance(event, AlarmChange)]
    assert [event.fault for event in alarms] == ["data refused"]
    with pytest.raises(RefusedBlockError):
        worker.submit(later[0])
    done = worker.command(Command("readmit", "ann", "the clock is right now"))
    (note,) = [event for event in changes_of(worker) if isinstance(event, Note) and event.topic == "sender"]
    done.result(0)
    assert "admitted anew by ann; 121 blocks with 12.1 s of signal refused" in note.text
    windows = worker.watch.counts.windows
    for block in later:
        worker.submit(block)
    changes_of(worker)
    assert worker.watch.counts.windows > windows + 1000
    assert worker.watch.now == pytest.approx(later[-1].time + 0.1)
    assert worker.status().refused_run is None
    worker.close()


def test_silence_is_counted_from_the_last_block_in_use(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    later, begun = wrong_clock(worker), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begun + 61.0)
    with pytest.raises(RefusedBlockError):
        worker.submit(later[0])
    work(worker)
    worker.tick()
    work(worker)
    assert worker.watch.alarms.case is not None
    assert worker.watch.alarms.case.faults == ("wear", "data refused", "no data")
    worker.close()


@given(
    data=st.data(),
    ahead=st.sampled_from([-900.0, -5.0, 0.5, 3600.0]),
)
@settings(max_examples=15, deadline=None)
def test_after_readmission_any_clock_and_number_is_used_at_once(data: st.DataObject, ahead: float) -> None:
    one, sent = watch(), blocks(signal(6.0))
    for record in records(sent[:20]):
        one.apply(record)
    one.apply(JournalRecord(20, COMMAND, Command("readmit", "ann").to_bytes()))
    first = data.draw(st.integers(0, 10**6))
    moved = [replace(block, sequence=first + n, time=block.time + ahead) for n, block in enumerate(sent[20:])]
    before = one.counts
    for position, block in enumerate(moved, 21):
        one.apply(JournalRecord(position, BLOCK, block.to_bytes()))
    assert one.counts.refused_blocks == before.refused_blocks
    assert one.counts.windows > before.windows
    assert one.now == pytest.approx(moved[-1].time + 0.1)


def test_rejected_windows_and_gaps_are_reported_too(worker: Worker) -> None:
    samples = signal(2.0).copy()
    samples[1, 500:560] = 0.25
    sent = blocks(samples)
    for block in [*sent[:12], *sent[14:]]:
        worker.submit(block)
    kinds = set()
    while worker.work():
        refused = worker.status().last_refused
        kinds.add(None if refused is None else (refused.what, refused.reason))
    assert ("windows", f"{DROP_OUT} on b") in kinds or ("windows", "flat line on b") in kinds
    assert ("gap", "blocks missing") in kinds
    worker.close()
