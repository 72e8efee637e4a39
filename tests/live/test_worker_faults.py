"""What the environment of a worker does to it: nothing that lasts longer than the fault."""

from __future__ import annotations

import builtins
import errno
import io
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgsa.errors import CgsaError, OverloadError
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.signal_diagnoser import SignalDiagnoser
from cgsa.live.store import RowSelection
from cgsa.live.worker import Worker, WorkerConfig
from tests.live.stream import blocks, signal
from tests.machines import bundle

CONFIG = WorkerConfig(checkpoint_seconds=0.05, shed_above=60.0, snippet_before=0.3, snippet_after=0.2)
SETTINGS = {"stream": {"batch_size": 64}}
CALLS = ("open", "pwrite", "fsync", "ftruncate", "mkdir", "rename", "replace", "unlink", "dup")
ODD = 12_345.0
"""A sample that the broken program of these tests cannot cope with."""


@contextmanager
def failing_calls(folder: Path, code: int) -> Iterator[None]:
    """Let every call that opens, writes or removes a file of a folder fail, as on a full or broken disk."""

    def concerns(place: Any) -> bool:
        if isinstance(place, int):
            try:
                place = Path(f"/proc/self/fd/{place}").readlink()
            except OSError:
                return False
        return str(place).startswith(str(folder))

    def faulty(true: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if arguments and concerns(arguments[0]):
                raise OSError(code, os.strerror(code))
            return true(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, faulty(getattr(os, name)))
        opened = faulty(io.open)
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)
        yield


@contextmanager
def failing_store(plant: Plant) -> Iterator[None]:
    """Let every write to the store fail."""

    def full(*_: object) -> list[int | Exception]:
        raise sqlite3.OperationalError("database or disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plant.store._writer, "_write", full)
        yield


@contextmanager
def fault_of_the_program() -> Iterator[None]:
    """Let the diagnosis fail at every block that contains a certain sample."""
    true = SignalDiagnoser.add

    def add(self: SignalDiagnoser, samples: Any, **named: Any) -> Any:
        found = true(self, samples, **named)
        if (samples == ODD).any():
            raise IndexError("a fault of the program")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SignalDiagnoser, "add", add)
        yield


@contextmanager
def plant_of(folder: Path, *machines: str) -> Iterator[tuple[Plant, list[Worker]]]:
    if not (folder / "model").exists():
        bundle().save(folder / "model")
    with Plant(folder / "plant", threads=1, config=CONFIG) as plant:
        yield plant, [plant.add(MachineConfig(name, folder / "model", settings=SETTINGS)) for name in machines]


def sent(machine: str = "m1", seconds: float = 6.0) -> list[Block]:
    return [replace(block, machine=machine) for block in blocks(signal(seconds))]


def until_taken(plant: Plant, block: Block, seconds: float = 20.0) -> bool:
    """Send a block until it is taken, as senders do; return whether it was refused before."""
    end, refused = time.monotonic() + seconds, False
    while time.monotonic() < end:
        try:
            plant.submit(block)
        except (OverloadError, CgsaError):
            refused = True
            time.sleep(0.02)
        else:
            return refused
    raise AssertionError("the block was never taken")


def verdicts(plant: Plant, machine: str = "m1") -> list[tuple[float, float, str, str | None]]:
    plant.store.flush()
    with plant.store.read() as snapshot:
        rows = snapshot.diagnoses(machine, RowSelection(limit=1000, newest_first=False)).rows
    return [(row.diagnosis.begin, row.diagnosis.end, row.diagnosis.verdict, row.diagnosis.state) for row in rows]


def notes(plant: Plant, machine: str = "m1") -> list[str]:
    plant.store.flush()
    with plant.store.read() as snapshot:
        return [note.text for note in snapshot.notes(machine, pick=RowSelection(limit=1000, newest_first=False)).rows]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, float, str, str | None]]:
    with plant_of(tmp_path_factory.mktemp("quiet"), "m1") as (plant, _):
        for block in sent():
            plant.submit(block)
        plant.wait_until_idle()
        return verdicts(plant)


def check_told_and_over(plant: Plant, worker: Worker) -> None:
    """Everything works again, and the notes say what did not, once."""
    end = time.monotonic() + 20
    while worker.status().work != "working" and time.monotonic() < end:
        time.sleep(0.02)
    assert worker.status().problem is None
    assert worker.status().work == "working"
    plant.wait_until_idle()
    end = time.monotonic() + 10
    while not any(" again, after" in text for text in notes(plant)) and time.monotonic() < end:
        time.sleep(0.05)
    found = notes(plant)
    begun, over = ([text for text in found if part in text] for part in ("which is tried again", " again, after"))
    assert begun, found
    assert len(begun) == len(over)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("part", ["journal", "states"])
def test_a_disk_that_fails_ends_no_watch(tmp_path: Path, quiet: list[object], part: str, code: int) -> None:
    stream = sent()
    with plant_of(tmp_path, "m1") as (plant, (worker,)):
        for block in stream[:20]:
            plant.submit(block)
        with failing_calls(tmp_path / "plant" / "machines" / "m1" / part, code):
            if part == "journal":
                with pytest.raises(OverloadError, match="the journal cannot be written"):
                    plant.submit(stream[20])
            else:
                plant.submit(stream[20])
            end = time.monotonic() + 10
            while worker.status().problem is None and time.monotonic() < end:
                time.sleep(0.01)
            status = worker.status()
            assert status.work == "retrying"
            assert {one.cause for one in status.problems} == {os.strerror(code)}
        for block in stream[20 if part == "journal" else 21 :]:
            until_taken(plant, block)
        plant.wait_until_idle()
        check_told_and_over(plant, worker)
        assert verdicts(plant) == quiet


def test_results_wait_for_a_store_that_cannot_be_written(tmp_path: Path, quiet: list[object]) -> None:
    with plant_of(tmp_path, "m1") as (plant, (worker,)):
        plant.store._writer._capacity = 40
        with failing_store(plant):
            for block in sent():
                plant.submit(block)
            end = time.monotonic() + 10
            while worker.status().work != "retrying" and time.monotonic() < end:
                time.sleep(0.01)
            assert "disk is full" in (worker.status().problem or "")
        plant.wait_until_idle()
        check_told_and_over(plant, worker)
        assert plant.store.lost == 0
        assert verdicts(plant) == quiet


def test_a_journal_that_cannot_be_read_for_a_while_is_read_later(
    tmp_path: Path, quiet: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with plant_of(tmp_path, "m1") as (plant, (worker,)):
        monkeypatch.setattr("cgsa.live.entry_queue.MAX_QUEUED", 3)
        true = Path.open

        def broken(path: Path, *rest: Any, **named: Any) -> Any:
            if path.suffix == ".journal":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return true(path, *rest, **named)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", broken)
            for block in sent():
                plant.submit(block)
            end = time.monotonic() + 10
            while worker.status().work != "retrying" and time.monotonic() < end:
                time.sleep(0.01)
            assert "process the journal" in {one.task for one in worker.status().problems}
        plant.wait_until_idle()
        check_told_and_over(plant, worker)
        assert verdicts(plant) == quiet


def test_memory_that_is_short_for_a_while_changes_no_verdict(tmp_path: Path, quiet: list[object]) -> None:
    true, failures = SignalDiagnoser.add, iter([0, 0, 1, 0, 1, 1, 0] + [0] * 1000)

    def add(self: SignalDiagnoser, samples: Any, **named: Any) -> Any:
        found = true(self, samples, **named)
        if next(failures):
            raise MemoryError
        return found

    with plant_of(tmp_path, "m1") as (plant, (worker,)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(SignalDiagnoser, "add", add)
        for block in sent():
            plant.submit(block)
        plant.wait_until_idle()
        check_told_and_over(plant, worker)
        assert verdicts(plant) == quiet


def odd_stream() -> list[Block]:
    """A stream in which the program fails at the block in the middle."""
    stream = sent()
    samples = stream[30].samples.copy()
    samples[0, 0] = np.float32(ODD)
    stream[30] = replace(stream[30], samples=samples)
    return stream


def test_an_odd_record_is_set_aside_and_the_following_ones_are_diagnosed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with fault_of_the_program(), plant_of(tmp_path, "m1") as (plant, (worker,)):
        for block in odd_stream():
            plant.submit(block)
        plant.wait_until_idle()
        assert worker.status().problem is None
        assert worker.watch.counts.lost == 1
        assert worker.watch.counts.blocks == 59
        (told,) = [text for text in notes(plant) if "skipped" in text]
        assert "record 30 is skipped: IndexError: a fault of the program" in told
        found = verdicts(plant)
        assert found[-1][1] > 1005.0
    assert "a fault of the program" in caplog.text
    # A later program that copes with the record leaves it out as well: the results depend on the journal alone.
    for state in (tmp_path / "plant" / "machines" / "m1" / "states").iterdir():
        state.unlink()
    with plant_of(tmp_path, "m1") as (plant, (worker,)):
        plant.wait_until_idle()
        assert worker.watch.counts.lost == 1
        assert verdicts(plant) == found


def test_a_fault_at_every_record_stops_one_watch_which_then_takes_no_blocks(
    tmp_path: Path, quiet: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise IndexError("a fault of the program")

    stream = sent()
    with plant_of(tmp_path, "m1", "m2") as (plant, (bad, good)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bad.watch.signal.__class__, "add", fail)
            for block in stream[:10]:
                plant.submit(block)
            end = time.monotonic() + 10
            while not bad.stopped and time.monotonic() < end:
                time.sleep(0.01)
        status = bad.status()
        assert status.work == "stopped"
        assert "the watch stopped: IndexError('a fault of the program')" in (status.problem or "")
        with pytest.raises(OverloadError, match="not monitored at present"):
            plant.submit(stream[10])
        for block in sent("m2"):
            plant.submit(block)
        while good.has_work:
            time.sleep(0.01)
        assert good.watch.counts.blocks == 60
    assert "a fault of the program" in caplog.text
    # The program is repaired: everything that was taken is diagnosed.
    with plant_of(tmp_path, "m1") as (plant, (worker,)):
        for block in stream[10:]:
            plant.submit(block)
        plant.wait_until_idle()
        assert worker.watch.counts.lost == 0
        assert verdicts(plant) == quiet


def test_a_plant_starts_while_its_disk_fails(tmp_path: Path, quiet: list[object]) -> None:
    stream = sent()
    with plant_of(tmp_path, "m1") as (plant, _):
        for block in stream[:30]:
            plant.submit(block)
    states = tmp_path / "plant" / "machines" / "m1" / "states"
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1, config=CONFIG) as plant:
        with failing_calls(states, errno.EMFILE):
            worker = plant.add(MachineConfig("m1", tmp_path / "model", settings=SETTINGS))
            time.sleep(0.3)
            assert worker.status().work == "retrying"
            assert worker.status().counts.windows == 0
        for block in stream[30:]:
            plant.submit(block)
        end = time.monotonic() + 20
        while worker.position < 60 and time.monotonic() < end:
            time.sleep(0.02)
        check_told_and_over(plant, worker)
        assert verdicts(plant) == quiet, "no state was given up"


def test_each_failure_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with plant_of(tmp_path, "m1") as (plant, _), caplog.at_level(logging.WARNING):
        for block in sent(seconds=1.0):
            plant.submit(block)
        with failing_calls(tmp_path / "plant" / "machines" / "m1" / "journal", errno.ENOSPC):
            for block in sent(seconds=2.0)[10:]:
                with pytest.raises(OverloadError):
                    plant.submit(block)
    assert caplog.text.count("cannot write the journal") == 1


def test_no_state_is_saved_before_its_results_are_in_the_store(tmp_path: Path, quiet: list[object]) -> None:
    stream = sent()
    with plant_of(tmp_path, "m1") as (plant, (worker,)):
        with failing_store(plant):
            for block in stream[:30]:
                plant.submit(block)
            end = time.monotonic() + 10
            while not any(one.task == "save the state" for one in worker.status().problems):
                assert time.monotonic() < end
                time.sleep(0.01)
            assert worker.states() == ()
            # The process is killed here: what waits for the store is lost, and its journal has everything.
            shutil.copytree(tmp_path / "plant" / "machines", tmp_path / "killed" / "plant" / "machines")
        plant.wait_until_idle()
    with plant_of(tmp_path / "killed", "m1") as (plant, _):
        for block in stream[30:]:
            plant.submit(block)
        plant.wait_until_idle()
        assert verdicts(plant) == quiet
