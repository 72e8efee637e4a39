from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from benchmarks.fleet.comparison import differences, results_of
from benchmarks.fleet.reference import apply_log

from cgsa.errors import BundleError, ConfigError, DataError, UnavailableError
from cgsa.fleet.assignments import STEPS, AssignmentFolder, AssignmentTable
from cgsa.fleet.controller import Controller, ControllerConfig
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import StoredResults
from cgsa.fleet.shard import Shard, ShardConfig, ShardStatus
from cgsa.live.store import Store
from tests.fleet.machines import blocks_of, machine_config, model_in, publish, until

QUICK = ShardConfig(checkpoint_seconds=0.1, write_seconds=0.02, trim_seconds=None)


class Nodes:
    """Shards in this process, some of which may not be reached."""

    def __init__(self, folder: Path, log: ReplayableLog, store: Store) -> None:
        self.states = ObjectFolder.of(str(folder / "states"))
        self.log, self.results = log, StoredResults(store)
        self.shards: dict[str, Shard] = {}
        self.away: set[str] = set()

    def start(self, name: str) -> Reachable:
        if name not in self.shards:
            self.shards[name] = Shard(name, self.log, self.results, self.states, config=QUICK)
            self.shards[name].start()
        return Reachable(name, self)

    def stop(self) -> None:
        for shard in self.shards.values():
            shard.stop()


class Reachable:
    def __init__(self, name: str, nodes: Nodes) -> None:
        self._name, self._nodes = name, nodes

    def _shard(self) -> Shard:
        if self._name in self._nodes.away:
            raise UnavailableError("no network")
        return self._nodes.shards[self._name]

    def assign(self, table: AssignmentTable) -> None:
        self._shard().assign(table)

    def release(self, machines: tuple[str, ...]) -> None:
        self._shard().release(machines)

    def status(self) -> ShardStatus:
        return self._shard().status()

    def stop(self) -> None:
        self._shard().stop()
        del self._nodes.shards[self._name]


@pytest.fixture
def log(nats_server: NatsServer) -> Iterator[ReplayableLog]:
    with JetStreamLog(JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")) as opened:
        yield opened


@pytest.fixture
def nodes(tmp_path: Path, log: ReplayableLog) -> Iterator[Nodes]:
    with Store(tmp_path / "store.sqlite") as store:
        found = Nodes(tmp_path, log, store)
        yield found
        found.stop()


def test_machines_come_move_and_leave_without_loss(tmp_path: Path, log: ReplayableLog, nodes: Nodes) -> None:
    model, names = model_in(tmp_path), ("m1", "m2", "m3", "m4")
    machines = [machine_config(name, model) for name in names]
    sent = {name: blocks_of(name, seed=seed) for seed, name in enumerate(names)}
    folder = AssignmentFolder(ObjectFolder.of(str(tmp_path / "assignments")))
    controller = Controller(folder, nodes.start)
    controller.set_shards(("s1", "s2"))
    controller.add(*machines[:3])
    changes = [
        lambda: controller.add(machines[3]),
        lambda: controller.move("m1", "s2" if controller.table.by_machine["m1"].shard == "s1" else "s1"),
        lambda: controller.set_shards(("s1", "s2", "s3")),
        lambda: controller.set_shards(("s2", "s3")),
        controller.check,
    ]
    for part, change in enumerate(changes):
        for name in names:
            publish(log, sent[name][12 * part : 12 * (part + 1)])
        change()
    controller.check()
    assert controller.table == folder.newest() or controller.table.version == folder.newest().version
    until(lambda: all(log.processed().get(name, 0) >= log.end(name) for name in names))
    assert sorted(nodes.shards) == ["s2", "s3"]
    assert {one.machine for shard in nodes.shards.values() for one in shard.status().machines} == set(names)
    controller.remove("m4")
    nodes.stop()
    nodes.shards.clear()
    with Store(tmp_path / "expected.sqlite") as expected, Store(tmp_path / "other.sqlite"):
        final = apply_log(log, machines, expected)
        store = nodes.results._store
        for name in names:
            assert not differences(name, results_of(store, nodes.states, name), results_of(expected, final, name))
    controller.close()


def test_another_controller_continues_with_the_table(tmp_path: Path, nodes: Nodes) -> None:
    model = model_in(tmp_path)
    folder = AssignmentFolder(ObjectFolder.of(str(tmp_path / "assignments")))
    first = Controller(folder, nodes.start)
    first.set_shards(("s1", "s2"))
    first.add(machine_config("m1", model), machine_config("m2", model))
    second = Controller(folder, nodes.start)
    second.check()
    assert second.table.assignments == first.table.assignments
    assert second.table.version >= first.table.version // STEPS * STEPS + STEPS
    # The first one was believed dead. What it does now counts no more.
    first.move("m1", "s2" if first.table.by_machine["m1"].shard == "s1" else "s1")
    assert folder.newest().assignments == second.table.assignments
    second.check()
    second.check()
    until(lambda: sum(len(shard.status().machines) for shard in nodes.shards.values()) == 2)
    places = {one.machine: name for name, shard in nodes.shards.items() for one in shard.status().machines}
    assert places == {one.machine.name: one.shard for one in second.table.assignments}
    first.close()
    second.close()


def test_machines_of_a_shard_that_does_not_answer_go_to_others(
    tmp_path: Path, log: ReplayableLog, nodes: Nodes
) -> None:
    model = model_in(tmp_path)
    config = ControllerConfig(lost_seconds=0.2)
    controller = Controller(AssignmentFolder(ObjectFolder.of(str(tmp_path / "assignments"))), nodes.start, config)
    controller.set_shards(("s1", "s2"))
    controller.add(machine_config("m1", model), machine_config("m2", model))
    publish(log, blocks_of("m1"))
    controller.check()
    lost = controller.table.by_machine["m1"].shard
    nodes.away.add(lost)
    controller.check()
    assert controller.table.by_machine["m1"].shard == lost  # it may only be restarting
    time.sleep(0.3)
    controller.check()
    assert controller.table.by_machine["m1"].shard != lost
    until(lambda: nodes.shards[lost].status().fenced == ("m1",))
    until(lambda: log.processed().get("m1", 0) >= log.end("m1"))
    nodes.away.clear()
    controller.check()
    assert not nodes.shards[lost].status().fenced  # it knows by now that the machine is not its own
    controller.close()


def test_a_claim_that_nobody_knows_of_is_followed_by_another(tmp_path: Path, nodes: Nodes) -> None:
    controller = Controller(AssignmentFolder(ObjectFolder.of(str(tmp_path / "assignments"))), nodes.start)
    controller.set_shards(("s1",))
    controller.add(machine_config("m1", model_in(tmp_path)))
    until(lambda: len(nodes.shards["s1"].status().machines) == 1)
    nodes.results.claim(
        {"m1": controller.table.by_machine["m1"].version}, {}
    )  # a process of the same shard, paused before
    publish(nodes.log, blocks_of("m1"))
    until(lambda: nodes.shards["s1"].status().fenced == ("m1",))
    controller.check()
    until(lambda: nodes.log.processed().get("m1", 0) >= nodes.log.end("m1"))
    controller.close()


def test_mistakes_are_named(tmp_path: Path, nodes: Nodes) -> None:
    controller = Controller(AssignmentFolder(ObjectFolder.of(str(tmp_path / "assignments"))), nodes.start)
    machine = machine_config("m1", model_in(tmp_path))
    with pytest.raises(ConfigError, match="no shard"):
        controller.add(machine)
    controller.set_shards(("s1",))
    controller.add(machine)
    version = controller.table.version
    controller.add(machine)
    assert controller.table.version == version
    with pytest.raises(DataError, match="no shard 's7'; there are s1"):
        controller.move("m1", "s7")
    with pytest.raises(DataError, match="no machine 'm2'"):
        controller.remove("m2")
    controller.close()


def test_a_damaged_table_is_replaced_by_the_one_before(tmp_path: Path) -> None:
    folder = AssignmentFolder(ObjectFolder.of(str(tmp_path)))
    for version in (1, 2):
        folder.save(AssignmentTable(version, shards=(f"s{version}",)))
    newest = tmp_path / f"{2:020d}.json"
    newest.write_bytes(newest.read_bytes().replace(b"s2", b"s3"))
    assert folder.newest().shards == ("s1",)
    assert folder.next_generation() == STEPS


def test_a_table_that_cannot_be_read_is_no_empty_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = AssignmentFolder(ObjectFolder.of(str(tmp_path)))
    folder.save(AssignmentTable(1, shards=("s1",)))

    def fail(self: ObjectFolder, name: str) -> bytes:
        raise BundleError("cannot be read") from OSError(5, "input/output error")

    monkeypatch.setattr(ObjectFolder, "read", fail)
    with pytest.raises(BundleError):
        folder.newest()
