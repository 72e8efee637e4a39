from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.events import AlarmChange, Note
from cgsa.live.intake.block import Block
from cgsa.live.intake.continuity import LATE, WRONG_CHANNELS, WRONG_ORDER, WRONG_RATE
from cgsa.live.intake.quality import DROP_OUT
from cgsa.live.intake.refusals import WRONG_CONDITION, WRONG_UNITS, RefusedBlockError
from cgsa.live.recent_blocks import MAX_RECENT
from cgsa.live.store import Store
from cgsa.live.worker import Worker
from tests.live.stream import blocks, signal
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


def test_a_sender_of_unusable_blocks_raises_the_alarm_about_missing_data(worker: Worker) -> None:
    found: list[object] = []
    for block in blocks(signal(6.0) * 1.0)[:10]:
        wrong = replace(block, time=block.time + 20.0 * block.sequence, sample_rate=900.0)
        with pytest.raises(RefusedBlockError):
            worker.submit(wrong)
    while (entry := worker._next()) is not None:
        found += worker.watch.apply(entry).events
        worker._position = entry.end
    assert [event.fault for event in found if isinstance(event, AlarmChange)] == ["no data"]
    assert len([event for event in found if isinstance(event, Note)]) == 1, "one note for all of them"
    worker._journal.close()


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
