"""Machines whose students are stacked find what they find alone; on the CPU here, where a stack is only slower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import torch
from benchmarks.fleet.comparison import MachineResults, differences, results_of
from benchmarks.fleet.reference import apply_log

from cgsa.fleet.assignments import Assignment
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.fleet.student_stacks import StudentStacks
from cgsa.live.plant import MachineConfig
from cgsa.live.store import Store, StoredDiagnosis
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, Watch
from tests.fleet.machines import LEARNS, blocks_of, model_in, publish, table, until

QUICK = ShardConfig(checkpoint_seconds=0.1, write_seconds=0.02, trim_seconds=None)
TOLERANCE = 2e-5
"""Of probabilities along a stream; the stack and the single engine multiply in another order."""


@pytest.fixture
def log(nats_server: NatsServer) -> Iterator[ReplayableLog]:
    with JetStreamLog(JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")) as opened:
        yield opened


def machine(name: str, model: Path) -> MachineConfig:
    return MachineConfig(name, str(model), profile="paper", method="cgsa", settings={"method": LEARNS["method"]})


def run_stacked(
    folder: Path, log: ReplayableLog, machines: list[MachineConfig], *, restart: bool = False
) -> dict[str, MachineResults]:
    states = ObjectFolder.of(str(folder / "states"))
    folder.mkdir(exist_ok=True)
    names = [one.name for one in machines]
    with Store(folder / "store.sqlite") as store:
        for number in range(2 if restart else 1):
            with Shard(
                "s1", log, StoredResults(store), states, config=QUICK, stacks=StudentStacks("cpu", together=4)
            ) as shard:
                shard.assign(table(*(Assignment(one, "s1", number + 1) for one in machines)))
                until(lambda: {one.machine for one in shard.status().machines} == set(names))
                until(lambda: all(one.position >= log.end(one.machine) for one in shard.status().machines))
            if restart and not number:
                for name in names:
                    publish(log, blocks_of(name, 9.0)[60:])
        return {name: results_of(store, states, name) for name in names if log.end(name)}


def assert_close(found: MachineResults, expected: MachineResults) -> None:
    rows = list(zip(found.rows["diagnoses"], expected.rows["diagnoses"], strict=True))
    assert rows
    for one, other in rows:
        assert isinstance(one, StoredDiagnosis)
        assert isinstance(other, StoredDiagnosis)
        a, b = one.diagnosis, other.diagnosis
        assert (a.verdict, a.state, a.alarm, a.accepted) == (b.verdict, b.state, b.alarm, b.accepted)
        assert a.probabilities == pytest.approx(b.probabilities, abs=TOLERANCE)
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        if "network" in name:
            torch.testing.assert_close(found.tensors[name], tensor, atol=1e-4, rtol=1e-4)


def test_stacked_machines_find_what_single_ones_find(tmp_path: Path, log: ReplayableLog) -> None:
    """With two models, a machine without learning for a while, and one that has nothing to do."""
    one, other = model_in(tmp_path), model_in(tmp_path, seed=1)
    machines = [machine("m1", one), machine("m2", one), machine("m3", one), machine("m4", other), machine("idle", one)]
    for seed, config in enumerate(machines[:4]):
        sent = blocks_of(config.name, 6.0 - seed, seed=seed)
        publish(log, sent[:20])
        publish(log, sent[20:30], kind=BLOCK_NOT_LEARNT if seed == 1 else BLOCK)
        publish(log, sent[30:])
    found = run_stacked(tmp_path / "stacked", log, machines)
    with Store(tmp_path / "expected.sqlite") as expected:
        final = apply_log(log, machines, expected)
        for config in machines[:4]:
            assert final[config.name].counts.learnt > 200
            assert_close(found[config.name], results_of(expected, final, config.name))


def test_neighbours_and_restarts_change_no_bit(tmp_path: Path, log: ReplayableLog) -> None:
    model = model_in(tmp_path)
    for seed, name in enumerate(("m1", "m2")):
        publish(log, blocks_of(name, seed=seed))
    both = run_stacked(tmp_path / "both", log, [machine("m1", model), machine("m2", model)], restart=True)
    alone = run_stacked(tmp_path / "alone", log, [machine("m1", model)])
    assert not differences("m1", alone["m1"], both["m1"])


def test_a_machine_whose_record_fails_does_not_hold_up_the_others(
    tmp_path: Path, log: ReplayableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, apply = model_in(tmp_path), Watch.apply

    def sometimes(watch: Watch, entry: object) -> object:
        if watch.machine == "broken":
            raise RuntimeError("a fault of the program")
        return apply(watch, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(Watch, "apply", sometimes)
    for name in ("good", "broken"):
        publish(log, blocks_of(name, 3.0))
    states = ObjectFolder.of(str(tmp_path / "states"))
    stacks = StudentStacks("cpu", together=4)
    with (
        Store(tmp_path / "store.sqlite") as store,
        Shard("s1", log, StoredResults(store), states, config=QUICK, stacks=stacks) as shard,
    ):
        shard.assign(table(*(Assignment(machine(name, model), "s1", 1) for name in ("good", "broken"))))
        until(lambda: log.processed().get("good", 0) >= log.end("good"))
