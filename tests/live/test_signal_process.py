"""Diagnoses computed in another process are those of this one, whatever happens to that process."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import signal as signals
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.errors import ConfigError, DataError
from cgsa.live.commands import Command
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.signal_process import RemoteSignal, SignalProcess
from cgsa.live.store import RowSelection
from cgsa.live.watch import Watch, WatchConfig, WatchResult
from cgsa.live.worker import WorkerConfig
from cgsa.nn.state import select_prefix
from tests.live.stream import MACHINE, blocks, records, signal
from tests.machines import bundle, ensemble_bundle

CONFIG = WorkerConfig(checkpoint_seconds=0.05, shed_above=60.0)
METHODS = ("cgsa", "commissioning")


@pytest.fixture(scope="module")
def process() -> Iterator[SignalProcess]:
    found = SignalProcess(0)
    yield found
    found.stop()


def watch(method: str, process: SignalProcess | None) -> Watch:
    model = ensemble_bundle() if method == "commissioning" else bundle()
    config = WatchConfig(method=method, batch_size=16)
    return Watch(MACHINE, model, config, model="toy", create_signal=None if process is None else process.create)


def applied(watched: Watch, seconds: float = 4.0) -> list[WatchResult]:
    return [watched.apply(record) for record in records(blocks(signal(seconds)))]


def assert_same_results(first: list[WatchResult], second: list[WatchResult]) -> None:
    assert [one.events for one in first] == [one.events for one in second]
    assert any(one.ledger for one in first)
    for one, other in zip(first, second, strict=True):
        for rows, others in zip(one.ledger, other.ledger, strict=True):
            assert rows.keys() == others.keys()
            for name in rows:
                values, expected = (getattr(found[name], "codes", found[name]) for found in (rows, others))
                np.testing.assert_array_equal(values, expected)


def assert_same_state(first: Watch, second: Watch) -> None:
    (tensors, rest), (others, other_rest) = first.state(), second.state()
    assert rest == other_rest
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, others[name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("method", METHODS)
def test_a_watch_gives_the_same_results_from_another_process(method: str, process: SignalProcess) -> None:
    here, there = watch(method, None), watch(method, process)
    assert_same_results(applied(here), applied(there))
    assert_same_state(here, there)
    assert (here.now, here.operation, here.commissioning) == (there.now, there.operation, there.commissioning)
    assert here.signal.holds_windows == there.signal.holds_windows


def test_a_state_of_one_process_continues_in_another(process: SignalProcess) -> None:
    sent = list(records(blocks(signal(4.0))))
    here, there = watch("cgsa", None), watch("cgsa", process)
    for record in sent[:20]:
        here.apply(record)
    there.restore(*here.state())
    assert_same_results([here.apply(one) for one in sent[20:]], [there.apply(one) for one in sent[20:]])
    assert_same_state(here, there)


def test_commands_reach_the_other_process(process: SignalProcess) -> None:
    here, there = watch("commissioning", None), watch("commissioning", process)
    for watched in (here, there):
        applied(watched)
    repeated = Command("commission", "ann", details={"healthy": True})
    assert here.signal.commission(repeated) == there.signal.commission(repeated)
    assert_same_state(here, there)
    for watched in (here, there):
        watched.signal.reset()
    assert_same_state(here, there)
    refused = Command("withdraw_reference", "ann")
    with pytest.raises(DataError) as expected:
        here.signal.commission(refused)
    with pytest.raises(DataError) as found:
        there.signal.commission(refused)
    assert str(found.value) == str(expected.value)
    there.signal.roll_back(select_prefix("method", here.signal.state_dict()))
    assert_same_state(here, there)


def test_a_signal_that_nobody_uses_is_dropped(process: SignalProcess) -> None:
    gc.collect()
    before = process.signals
    first, second = watch("cgsa", process), watch("cgsa", process)
    assert process.signals == before + 2
    del first
    gc.collect()
    assert process.signals == before + 1
    assert process._dropped
    second.signal.elapse(1.0)
    assert not process._dropped


def test_a_process_that_died_is_started_anew_for_the_next_signal(process: SignalProcess) -> None:
    lost = watch("cgsa", process)
    assert process.id is not None
    os.kill(process.id, signals.SIGKILL)
    with pytest.raises(OSError, match="has ended"):
        lost.signal.elapse(1.0)
    found = watch("cgsa", process)
    with pytest.raises(OSError, match="started anew"):
        lost.signal.elapse(1.0)
    assert_same_results(applied(found, 2.0), applied(watch("cgsa", None), 2.0))


def test_a_fault_of_the_program_is_described(process: SignalProcess) -> None:
    found = watch("cgsa", process).signal
    assert isinstance(found, RemoteSignal)
    with pytest.raises(RuntimeError, match=r"AttributeError.*no_such"):
        found._ask("no_such")


def run_plant(folder: Path, model: Path, *, processes: bool, kill_after: int | None = None) -> list[object]:
    """Watch two machines, and return all that is in the store; kill a process after so many blocks."""
    names = ("one", "two")
    with Plant(folder, threads=2, config=CONFIG, processes=processes) as plant:
        configs = [
            MachineConfig(name, model, profile="paper", settings={"stream": {"batch_size": 64}}) for name in names
        ]
        # As a reload does: all of them are prepared before the first one starts.
        for config, prepared in [(config, plant.prepare(config)) for config in configs]:
            plant.add(config, prepared)
        assert [len(thread.workers) for thread in plant._threads] == [1, 1]
        for number, block in enumerate(blocks(signal(4.0))):
            if number == kill_after:
                process = plant._threads[0].process
                assert process is not None
                assert process.id is not None
                os.kill(process.id, signals.SIGKILL)
            for name in names:
                plant.submit(replace(block, machine=name))
        plant.wait_until_idle()
        plant.store.flush()
        with plant.store.read() as snapshot:
            rows = [snapshot.diagnoses(name, RowSelection(limit=1000, newest_first=False)).rows for name in names]
        counts = [plant.worker(name).watch.counts for name in names]
    return [*([row.diagnosis for row in found] for found in rows), *counts]


def test_a_plant_whose_process_is_killed_gives_the_results_of_one_without_processes(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")
    expected = run_plant(tmp_path / "threads", tmp_path / "model", processes=False)
    assert run_plant(tmp_path / "processes", tmp_path / "model", processes=True, kill_after=15) == expected


def test_a_gpu_needs_no_processes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="processes on cuda; expected cpu"):
        Plant(tmp_path, device="cuda", processes=True)


def start_and_wait(pipe: Connection) -> None:
    process = SignalProcess(0)
    kept = watch("cgsa", process)
    pipe.send(process.id)
    pipe.recv()
    del kept


def test_the_process_ends_with_the_one_that_started_it() -> None:
    here, there = mp.Pipe()
    # Not a daemon: those may not have processes of their own.
    parent = mp.get_context("spawn").Process(target=start_and_wait, args=(there,))
    parent.start()
    child = here.recv()
    assert parent.pid is not None
    os.kill(parent.pid, signals.SIGKILL)
    parent.join()
    end = time.monotonic() + 10
    while time.monotonic() < end and Path(f"/proc/{child}").exists() and "Z" not in _state(child):
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists() or "Z" in _state(child)


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"
