from __future__ import annotations

import json
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch

from cgsa.errors import ConfigError, DataError, OverloadError
from cgsa.live import entry_queue, protected_states, retries
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.kept_signal import SignalRetention
from cgsa.live.store import Store
from cgsa.live.worker import Worker, WorkerConfig
from tests.live.stream import BEGUN, MACHINE, blocks, signal
from tests.live.workers import diagnoses, execute, make, notes, weights, work
from tests.machines import RATE


def test_blocks_are_journalled_processed_and_stored(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    sent = blocks(signal(4.0))
    assert [worker.submit(block) for block in sent] == list(range(len(sent)))
    assert worker.has_work
    assert worker.waiting == pytest.approx(4.0)
    work(worker)
    assert not worker.has_work
    assert worker.position == len(sent)
    assert [d.batch for d in diagnoses(store)] == list(range(len(diagnoses(store))))
    assert worker.status().diagnosis == diagnoses(store)[-1]
    assert worker.status().learning == "learning"
    worker.close()


def test_resumes_after_a_clean_stop(tmp_path: Path, store: Store) -> None:
    sent = blocks(signal(6.0))
    whole = make(tmp_path / "whole", store)
    for block in sent:
        whole.submit(block)
    work(whole)
    for part in (sent[:25], sent[25:]):
        worker = make(tmp_path / "parts", store)
        for block in part:
            worker.submit(block)
        work(worker)
        worker.close()
    state = Worker.states(worker)[-1]
    assert state.position == len(sent)
    resumed = make(tmp_path / "parts", store)
    assert not resumed.has_work
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor.nan_to_num(), weights(resumed)[name].nan_to_num()), name
    resumed.close()
    whole.close()


def test_a_replay_adds_nothing_to_the_store(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    for block in blocks(signal(4.0)):
        worker.submit(block)
    work(worker)
    before, noted = diagnoses(store), notes(store)
    # No state was saved: a worker killed here leaves only its journal.
    worker._journal.close()
    again = make(tmp_path, store)
    assert again.status().learning == "catching up"
    again.work()
    assert again.waiting == pytest.approx((again._journal.end - again.position) * 0.1)
    work(again)
    assert again.status().learning == "learning"
    assert diagnoses(store) == before
    assert notes(store) == noted
    again.close()


def test_commands_are_executed_in_order_or_refused(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    for block in blocks(signal(2.0)):
        worker.submit(block)
    future = worker.command(Command("freeze", "ann"))
    assert not future.done()
    work(worker)
    assert future.exception(0) is None
    assert worker.status().learning == "frozen"
    with pytest.raises(DataError, match="already frozen"):
        execute(worker, Command("freeze", "ann")).result(0)
    with pytest.raises(DataError, match="there is no state 99; there are none"):
        worker.command(Command("roll_back", "ann", details={"state": 99}))
    worker.close()


def test_states_are_kept_for_rolling_back(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    sent = blocks(signal(6.0))
    for block in sent[:20]:
        worker.submit(block)
    work(worker)
    worker.save()
    (first,) = worker.states()
    before = weights(worker)
    for block in sent[20:40]:
        worker.submit(block)
    work(worker)
    execute(worker, Command("roll_back", "ann", "it drifted", {"state": first.number})).result(0)
    for name, tensor in weights(worker).items():
        if name.startswith("method"):
            assert torch.equal(tensor.nan_to_num(), before[name].nan_to_num()), name
    # After a kill before the next state, the replay rolls back again.
    after = weights(worker)
    worker._journal.close()
    again = make(tmp_path, store)
    work(again)
    for name, tensor in weights(again).items():
        assert torch.equal(tensor.nan_to_num(), after[name].nan_to_num()), name
    assert {note.topic for note in notes(store)} == {"roll back"}
    assert again.state(first.number).saved == first
    again.close()


def test_a_viewed_state_is_protected_for_a_while(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make(tmp_path, store)
    sent = iter(blocks(signal(6.0)))

    def save() -> int:
        worker.submit(next(sent))
        work(worker)
        worker.save()
        return worker.states()[-1].number

    viewed, compared, other = save(), save(), save()
    worker.protect_state(viewed)
    worker.state(compared)
    for _ in range(6):
        save()
    kept = [saved.number for saved in worker.states()]
    assert {viewed, compared} <= set(kept)
    assert other not in kept
    # Viewing many states does not fill the disk.
    for saved in worker.states()[-protected_states.MAX_PROTECTED :]:
        worker.protect_state(saved.number)
    newest = save()
    assert viewed not in [saved.number for saved in worker.states()]
    monkeypatch.setattr(protected_states, "PROTECTED_SECONDS", 0.0)
    for _ in range(4):
        save()
    assert newest not in [saved.number for saved in worker.states()]
    worker.close()


def test_a_damaged_state_is_reported_and_the_previous_one_used(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    sent = blocks(signal(6.0))
    for begin in (0, 20, 40):
        for block in sent[begin : begin + 20]:
            worker.submit(block)
        work(worker)
        worker.save()
    expected = weights(worker)
    worker.close()
    newest = max((tmp_path / MACHINE / "states").glob("*.state"))
    newest.write_bytes(newest.read_bytes()[:-7])
    again = make(tmp_path, store)
    assert again.position == 40
    work(again)
    for name, tensor in weights(again).items():
        assert torch.equal(tensor.nan_to_num(), expected[name].nan_to_num()), name
    assert [note.topic for note in notes(store)] == ["service"]
    assert newest.name in notes(store)[0].text
    again.close()


def test_another_model_starts_afresh_and_is_reported(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    for block in blocks(signal(2.0)):
        worker.submit(block)
    work(worker)
    worker.close()
    other = make(tmp_path, store, model="another")
    assert other.watch.counts.blocks == 0
    work(other)
    assert other.watch.counts.blocks == 0
    assert "starts afresh" in notes(store)[-1].text
    other.close()


def test_another_model_continues_the_numbers(tmp_path: Path, store: Store) -> None:
    """Results with numbers that are in the store already would be taken for repeated ones."""
    sent = blocks(signal(4.0))
    for model, part in (("toy", sent[:20]), ("another", sent[20:])):
        worker = make(tmp_path, store, model=model)
        for block in part:
            worker.submit(block)
        work(worker)
        worker.close()
    found = diagnoses(store)
    assert [one.batch for one in found] == list(range(len(found)))
    assert found[-1].end > found[len(found) // 2].end > BEGUN + 1.5
    # A state of the new model is there at once, so that a kill does not start afresh after further blocks.
    resumed = make(tmp_path, store, model="another")
    resumed.close()
    assert sum("starts afresh" in note.text for note in notes(store)) == 1


def test_another_model_continues_the_case(tmp_path: Path, store: Store) -> None:
    sent = blocks(signal(6.0, "wear"))
    cases = []
    for model, part in (("toy", sent[:30]), ("another", sent[30:])):
        worker = make(tmp_path, store, model=model)
        before = worker.watch.alarms.case
        for block in part:
            worker.submit(block)
        work(worker)
        cases.append((before, worker.watch.alarms.case))
        worker.close()
    assert cases[0][1] is not None
    assert cases[1][0] == cases[0][1]


def test_without_any_state_the_numbers_continue(tmp_path: Path, store: Store) -> None:
    sent = blocks(signal(6.0))
    worker = make(tmp_path, store, WorkerConfig(checkpoint_seconds=1e9, keep=SignalRetention(before=0.0)))
    worker._journal._segment_bytes = 4096
    for block in sent[:30]:
        worker.submit(block)
        work(worker)
        worker.save()
    assert worker._journal.begin > 0
    worker.close()
    before = diagnoses(store)
    for state in (tmp_path / MACHINE / "states").glob("*.state"):
        state.write_bytes(b"damaged")
    again = make(tmp_path, store)
    for block in sent[30:]:
        again.submit(block)
    work(again)
    again.close()
    found = diagnoses(store)
    assert len(found) > len(before)
    assert found[-1].end > BEGUN + 5.0
    assert [one.batch for one in found] == sorted(one.batch for one in found)
    assert any("no valid state is left" in note.text for note in notes(store))


def test_overload_sheds_learning_and_nothing_else(tmp_path: Path, store: Store) -> None:
    config = WorkerConfig(checkpoint_seconds=1e9, shed_above=1.0, shed_below=0.3, max_waiting=3.0)
    worker = make(tmp_path, store, config)
    sent = blocks(signal(6.0))
    for block in sent[:20]:
        worker.submit(block)
    assert worker.status().learning == "shed"
    work(worker)
    before = worker.watch.counts
    assert 0 < before.shed < before.windows
    for block in sent[20:]:
        worker.submit(block)
        work(worker)
    after = worker.watch.counts
    assert worker.status().learning == "learning"
    assert after.shed - before.shed <= 64
    # Every window was diagnosed.
    assert sum(d.windows for d in diagnoses(store)) == after.windows == 64 * after.batches
    assert [note.text for note in notes(store)] == ["1.1 s behind: learning is shed", "caught up: learning resumes"]
    worker.close()


def test_blocks_beyond_the_longest_queue_are_refused_and_counted(tmp_path: Path, store: Store) -> None:
    config = WorkerConfig(checkpoint_seconds=1e9, shed_above=0.5, shed_below=0.3, max_waiting=1.0)
    worker = make(tmp_path, store, config)
    with pytest.raises(OverloadError, match="send this block again later"):
        for block in blocks(signal(4.0)):
            worker.submit(block)
    assert worker.status().refused == 1
    worker.close()


def test_memory_holds_few_entries_and_the_journal_the_others(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_queue, "MAX_QUEUED", 5)
    few, many = make(tmp_path / "few", store), make(tmp_path / "many", store)
    sent = blocks(signal(6.0))
    for number, block in enumerate(sent):
        few.submit(block)
        many.submit(block)
        work(many)
        if number in {30, 31, 45}:
            for _ in range(number):
                few.work()
        assert len(few._queue._queued) <= 6
    work(few)
    assert few.position == many.position
    for name, tensor in weights(few).items():
        assert torch.equal(tensor.nan_to_num(), weights(many)[name].nan_to_num()), name
    few.close()
    many.close()


def test_silence_is_reported_once(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make(tmp_path, store)
    for block in blocks(signal(1.0)):
        worker.submit(block)
    work(worker)
    later = time.monotonic() + 61.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    for _ in range(3):
        worker.tick()
        work(worker)
    assert worker.watch.alarms.case is not None
    assert worker.watch.alarms.case.faults[-1] == "no data"
    assert worker.position == 11
    worker.close()


def test_a_state_that_cannot_be_saved_is_reported_and_saved_later(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = make(tmp_path, store)
    for block in blocks(signal(2.0)):
        worker.submit(block)
    work(worker)

    def full(*_args: object, **_more: object) -> None:
        raise DataError("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(worker._states, "save", full)
        worker.save()
    assert worker.status().problem == "disk is full"
    worker.save()
    assert worker.status().problem is None
    assert json.dumps(worker.states()[0].about)
    worker.close()


def test_a_failed_append_is_reported_and_tried_again(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = make(tmp_path, store)
    for block in blocks(signal(1.0)):
        worker.submit(block)
    work(worker)

    def full(*_: object) -> None:
        raise DataError("disk is full")

    later = time.monotonic() + 61.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with monkeypatch.context() as patch:
        patch.setattr(worker._journal, "append", full)
        worker.tick()
        worker.tick()
    assert worker.status().problem == "disk is full"
    assert not worker.has_work
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.0)
    later += 1.0
    worker.tick()
    work(worker)
    worker.tick()
    assert worker.status().problem is None
    assert worker.watch.alarms.case is not None
    worker.close()


def test_learning_is_shed_once_the_remark_about_it_is_journalled(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = make(tmp_path, store, WorkerConfig(shed_above=0.4, shed_below=0.2))
    sent = blocks(signal(1.0))
    for block in sent[:5]:
        worker.submit(block)

    def full(*_: object) -> None:
        raise DataError("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(worker._journal, "append", full)
        with pytest.raises(DataError, match="disk is full"):
            worker.submit(sent[5])
    worker.submit(sent[5])
    work(worker)
    assert [note.text for note in notes(store)] == ["0.5 s behind: learning is shed"]
    worker.close()


def test_commands_given_while_others_are_cancelled_are_cancelled_too(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    first, second = worker.command(Command("freeze", "ann")), worker.command(Command("thaw", "ann"))
    later: list[Future[None]] = []
    for future in (first, second):
        future.add_done_callback(lambda _: later.append(worker.command(Command("freeze", "bob"))))
    worker.fail("out of luck")
    assert len(later) == 2
    assert all(future.cancelled() for future in (first, second, *later))
    assert worker.status().problem == "out of luck"
    worker.close()
    assert worker.states() == ()


def test_a_block_of_another_machine_is_refused(tmp_path: Path, store: Store) -> None:
    worker = make(tmp_path, store)
    block = blocks(signal(1.0))[0]
    with pytest.raises(DataError, match="block of other sent to toy"):
        worker.submit(Block("other", 0, BEGUN, RATE, ("a", "b"), block.samples))
    worker.close()


@pytest.mark.parametrize(
    "wrong", [{"shed_below": 3.0}, {"max_waiting": 1.0}, {"checkpoint_seconds": 0.0}, {"snippet_after": -1.0}]
)
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        WorkerConfig(**wrong)
