from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.events import Diagnosis, Event
from cgsa.live import retries, store_maintenance
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import RowSelection, Store
from cgsa.live.worker import WorkerConfig
from tests.live.stream import blocks, signal
from tests.machines import bundle

NO_SHEDDING = WorkerConfig(shed_above=60.0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    bundle().save(tmp_path / "model")
    return tmp_path / "model"


def sent(machine: str, seconds: float = 3.0, seed: int = 0) -> list[Block]:
    return [replace(block, machine=machine) for block in blocks(signal(seconds, seed=seed))]


def test_machines_watched_in_parallel_give_the_results_of_one_alone(tmp_path: Path, model: Path) -> None:
    received: dict[str, list[Event]] = {"one": [], "two": [], "three": []}
    with Plant(tmp_path / "plant", threads=2, config=NO_SHEDDING) as plant:
        end = plant.subscribe(lambda machine, _, events: received[machine].extend(events))
        for name in received:
            plant.add(MachineConfig(name, model, profile="paper", settings={"stream": {"batch_size": 64}}))
        streams = {name: sent(name, seed=seed) for seed, name in enumerate(received)}
        for together in zip(*streams.values(), strict=True):
            for block in together:
                plant.submit(block)
        plant.wait_until_idle()
        end()
        plant.submit(sent("one", 6.0)[30])
        plant.wait_until_idle()
    with Plant(tmp_path / "alone", threads=1, config=NO_SHEDDING) as plant:
        plant.add(MachineConfig("two", model, profile="paper", settings={"stream": {"batch_size": 64}}))
        for block in streams["two"]:
            plant.submit(block)
        plant.wait_until_idle()
        plant.store.flush()
        with plant.store.read() as snapshot:
            rows = snapshot.diagnoses("two", RowSelection(limit=1000, newest_first=False)).rows
    diagnoses = [event for event in received["two"] if isinstance(event, Diagnosis)]
    assert len(diagnoses) > 5
    assert diagnoses == [row.diagnosis for row in rows]


def test_a_plant_resumes_where_it_stopped(tmp_path: Path, model: Path) -> None:
    for part in (slice(0, 13), slice(13, None)):
        with Plant(tmp_path / "plant", threads=1, config=NO_SHEDDING) as plant:
            worker = plant.add(MachineConfig("one", model))
            for block in sent("one")[part]:
                plant.submit(block)
            plant.wait_until_idle()
    assert worker.watch.counts.blocks == 30
    assert worker.watch.counts.gaps == 0


def test_commands_are_executed_while_the_plant_runs(tmp_path: Path, model: Path) -> None:
    with Plant(tmp_path / "plant", threads=1) as plant:
        worker = plant.add(MachineConfig("one", model))
        done = threading.Event()
        future = worker.command(Command("freeze", "ann"))
        future.add_done_callback(lambda _: done.set())
        assert done.wait(10)
        assert worker.status().learning == "frozen"


def test_names_and_models_are_checked(tmp_path: Path, model: Path) -> None:
    with Plant(tmp_path / "plant", threads=1) as plant:
        plant.add(MachineConfig("one", model))
        with pytest.raises(ConfigError, match="watched already"):
            plant.add(MachineConfig("one", model))
        with pytest.raises(DataError, match="no machine 'two' is watched; there are one"):
            plant.submit(sent("two")[0])
        with pytest.raises(BundleError):
            plant.add(MachineConfig("two", tmp_path))
        with pytest.raises(ConfigError, match="expected 1 to 64 letters"):
            MachineConfig("../two", model)


def test_machines_with_the_same_model_share_it(tmp_path: Path, model: Path) -> None:
    with Plant(tmp_path / "plant", threads=1) as plant:
        first, second = (plant.add(MachineConfig(name, model)) for name in ("one", "two"))
        assert first.watch.bundle is second.watch.bundle


def test_a_failing_listener_does_not_stop_the_watch(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault in a listener")

    with Plant(tmp_path / "plant", threads=1, config=NO_SHEDDING) as plant:
        worker = plant.add(MachineConfig("one", model))
        plant.subscribe(fail)
        for block in sent("one"):
            plant.submit(block)
        plant.wait_until_idle()
    assert worker.watch.counts.blocks == 30
    assert "a fault in a listener" in caplog.text


def test_old_rows_are_deleted_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done, attempts = threading.Event(), iter([DataError("disk is full"), ValueError("a fault"), None])

    def trim(*_: object) -> None:
        error = next(attempts, None)
        if error is not None:
            raise error
        done.set()

    monkeypatch.setattr(store_maintenance, "TRIM_SECONDS", 0.001)
    monkeypatch.setattr(retries, "LONGEST_DELAY", 0.01)
    monkeypatch.setattr(Store, "trim", trim)
    with Plant(tmp_path / "plant", threads=1) as plant:
        assert done.wait(10)
        while plant.problems:
            time.sleep(0.001)
    assert "cannot delete old rows, which is tried again: disk is full" in caplog.text
    assert "can delete old rows again" in caplog.text
