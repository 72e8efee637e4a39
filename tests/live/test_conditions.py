"""Operating conditions on their way from blocks to the method, through journal and restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.errors import DataError
from cgsa.events import Diagnosis
from cgsa.live.intake.block import Block
from cgsa.live.segments import JournalRecord
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, Watch, WatchConfig
from cgsa.live.worker import Worker
from tests.live.stream import BEGUN, MACHINE
from tests.live.workers import NO_CHECKPOINTS, diagnoses, weights, work
from tests.machines import RATE, ToyLibrary, speed_bundle

CONFIG = WatchConfig(method="commissioning", settings={"seconds": 0.5, "healthy_start": True}, batch_size=8)


def sent(*, known: bool, seconds: float = 6.0, size: int = 100) -> list[Block]:
    """A toy machine in blocks, whose torque stands for its speed."""
    recording = ToyLibrary(seed=5).get("wear", "low", severity="H", specimen=1)
    return [
        Block(
            MACHINE,
            number,
            BEGUN + begin / RATE,
            RATE,
            recording.channels,
            np.ascontiguousarray(recording.signal[:, begin : begin + size]),
            {"torque": float(recording.conditions["torque"][begin : begin + size].mean())} if known else {},
        )
        for number, begin in enumerate(range(0, round(seconds * RATE), size))
    ]


def worker_at(folder: Path, store: Store) -> Worker:
    return Worker(Watch(MACHINE, speed_bundle(), CONFIG, model="toy"), folder, store, config=NO_CHECKPOINTS)


def run(watch: Watch, blocks: list[Block]) -> list[Diagnosis]:
    results = [watch.apply(JournalRecord(n, BLOCK, block.to_bytes())) for n, block in enumerate(blocks)]
    return [event for result in results for event in result.events if isinstance(event, Diagnosis)]


def test_conditions_in_blocks_reach_the_method() -> None:
    told, untold = (run(Watch(MACHINE, speed_bundle(), CONFIG), sent(known=known)) for known in (True, False))
    assert len(told) == len(untold) > 2
    assert [one.probabilities for one in told] != [one.probabilities for one in untold]


def test_a_killed_worker_resumes_with_the_same_bits(tmp_path: Path, store: Store) -> None:
    """Once from a saved state with buffered conditions, once from the journal alone."""
    blocks = sent(known=True)
    whole = Watch(MACHINE, speed_bundle(), CONFIG, model="toy")
    expected = run(whole, blocks)
    for number, saved in enumerate((True, False)):
        worker = worker_at(tmp_path / str(number), store)
        for block in blocks[:23]:
            worker.submit(block)
        work(worker)
        if saved:
            worker.close()
        else:
            worker._journal.close()
        resumed = worker_at(tmp_path / str(number), store)
        for block in blocks[23:]:
            resumed.submit(block)
        work(resumed)
        for name, tensor in whole.signal.state_dict().items():
            assert torch.equal(tensor.nan_to_num(), weights(resumed)[name].nan_to_num()), name
        resumed.close()
    assert [one.probabilities for one in diagnoses(store)] == [one.probabilities for one in expected]


def test_unknown_conditions_are_refused_with_those_that_the_model_knows(tmp_path: Path, store: Store) -> None:
    worker = worker_at(tmp_path, store)
    with pytest.raises(DataError, match=r"unknown condition 'sped'; the model knows torque \(Nm\)"):
        worker.submit(replace(sent(known=True)[0], conditions={"torque": 3.0, "sped": 1480.0}))
    work(worker)
    assert worker.status().counts.refused_blocks == 1
    refused = worker.status().last_refused
    assert refused is not None
    assert (refused.reason, refused.sequence) == ("unknown condition", 0)
    worker.close()


def test_a_file_and_its_blocks_give_the_same_diagnoses() -> None:
    blocks = sent(known=True)
    signal = SignalDiagnoser(speed_bundle(), DiagnosisConfig(CONFIG.method, CONFIG.settings, batch_size=8))
    signal.start_at(BEGUN)
    samples = np.concatenate([block.samples for block in blocks], axis=1)
    torque = np.concatenate([np.full(block.count, block.conditions["torque"], np.float32) for block in blocks])
    found = signal.add(samples, conditions={"torque": torque, "other": 3.0})
    live = run(Watch(MACHINE, speed_bundle(), CONFIG), blocks)
    assert [one.event.probabilities for one in found] == [one.probabilities for one in live]
