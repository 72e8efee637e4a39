from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest
from benchmarks.fleet.comparison import differences, results_of
from benchmarks.fleet.reference import apply_log

from cgsa.errors import UnavailableError
from cgsa.events import Case
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import ResultBatch, StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.fleet.states import MachineStates
from cgsa.live.segments import Entry
from cgsa.live.store import Store
from cgsa.live.watch import Watch, WatchResult
from tests.fleet.machines import assignment, blocks_of, machine_config, model_in, publish, table, until
from tests.postgres import PostgresServer

QUICK = ShardConfig(checkpoint_seconds=0.1, write_seconds=0.02, trim_seconds=None)


@pytest.fixture
def log(nats_server: NatsServer) -> Iterator[ReplayableLog]:
    with JetStreamLog(JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")) as opened:
        yield opened


def caught_up(shard: Shard, log: ReplayableLog, *machines: str) -> bool:
    return all(log.processed().get(name, 0) >= log.end(name) for name in machines)


def test_a_shard_gives_the_results_of_a_single_process(tmp_path: Path, log: ReplayableLog) -> None:
    model, names = model_in(tmp_path), ("m1", "m2", "m3")
    for seed, name in enumerate(names):
        publish(log, blocks_of(name, seed=seed))
    states = ObjectFolder.of(str(tmp_path / "states"))
    with Store(tmp_path / "store.sqlite") as store:
        results = StoredResults(store)
        with Shard("s1", log, results, states, config=QUICK) as shard:
            shard.assign(table(*(assignment(name, model) for name in names)))
            until(lambda: caught_up(shard, log, *names))
        with Store(tmp_path / "expected.sqlite") as expected:
            final = apply_log(log, [machine_config(name, model) for name in names], expected)
            for name in names:
                assert not differences(name, results_of(store, states, name), results_of(expected, final, name))


def test_another_shard_continues_where_one_was_killed(tmp_path: Path, log: ReplayableLog) -> None:
    model, states = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states"))
    sent = blocks_of("m1")
    with Store(tmp_path / "store.sqlite") as store:
        results = Partitioned(StoredResults(store))
        publish(log, sent[:30])
        killed = Shard("s1", log, results, states, config=QUICK)
        killed.assign(table(assignment("m1", model)))
        killed.start()
        until(lambda: bool(states.below("m1").names()))
        kill(killed, results)
        publish(log, sent[30:])
        with Shard("s2", log, results.store, states, config=QUICK) as shard:
            shard.assign(table(assignment("m1", model, "s2", version=2), shards=("s1", "s2")))
            until(lambda: caught_up(shard, log, "m1"))
        with Store(tmp_path / "expected.sqlite") as expected:
            final = apply_log(log, [machine_config("m1", model)], expected)
            assert not differences("m1", results_of(store, states, "m1"), results_of(expected, final, "m1"))


def test_a_shard_that_was_believed_dead_writes_no_more(tmp_path: Path, log: ReplayableLog) -> None:
    """It processes records with another model, so anything that it still wrote would differ."""
    old, new, states = model_in(tmp_path), model_in(tmp_path, seed=1), ObjectFolder.of(str(tmp_path / "states"))
    sent = blocks_of("m1")

    def own(epoch: int) -> set[str]:
        return {name for name in states.below("m1").names() if name.startswith(f"{epoch:012d}-")}

    with Store(tmp_path / "store.sqlite") as store:
        results = Partitioned(StoredResults(store))
        zombie = Shard("s1", log, results, states, config=QUICK)
        zombie.assign(table(assignment("m1", old)))
        zombie.start()
        publish(log, sent[:20])
        until(lambda: bool(states.below("m1").names()))
        results.block()
        publish(log, sent[20:40])
        until(lambda: zombie.status().machines[0].position >= log.end("m1"))
        with Shard("s2", log, results.store, states, config=QUICK) as shard:
            shard.assign(table(assignment("m1", new, "s2", version=2), shards=("s1", "s2")))
            # Another model starts afresh, after the last state of the old one.
            until(lambda: any(one.position >= log.end("m1") for one in shard.status().machines))
            publish(log, sent[40:])
            until(lambda: MachineStates(states.below("m1"), 2).positions()[-1] == log.end("m1"))
            before, written = results_of(store, states, "m1"), own(1)
            results.unblock()
            until(lambda: zombie.status().fenced == ("m1",))
            assert not zombie.status().machines
            publish(log, sent[-1:], kind="repeated")
            zombie.stop()
            assert not differences("m1", results_of(store, states, "m1"), before)
        assert own(1) <= written  # nothing of the old one came after the new one
        assert own(2)


def test_shards_with_writers_of_their_own_share_a_database(
    tmp_path: Path, log: ReplayableLog, postgres: PostgresServer
) -> None:
    model, states, names = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states")), ("m1", "m2")
    sent = {name: blocks_of(name, seed=seed) for seed, name in enumerate(names)}
    everywhere = ("s1", "s2")
    with (
        postgres.database() as address,
        Store(address) as one,
        Store(address) as other,
        Shard("s1", log, StoredResults(one), states, config=QUICK) as first,
        Shard("s2", log, StoredResults(other), states, config=QUICK) as second,
    ):
        first.assign(table(assignment("m1", model), shards=everywhere))
        second.assign(table(assignment("m2", model, "s2"), shards=everywhere))
        for name in names:
            publish(log, sent[name][:30])
        until(lambda: bool(states.below("m1").names()))
        # The first shard does not learn that the machine has left it.
        moved = table(assignment("m1", model, "s2", version=2), assignment("m2", model, "s2"), shards=everywhere)
        second.assign(moved)
        for name in names:
            publish(log, sent[name][30:])
        until(lambda: first.status().fenced == ("m1",))
        until(lambda: caught_up(second, log, *names))
        with Store(tmp_path / "expected.sqlite") as expected:
            final = apply_log(log, [machine_config(name, model) for name in names], expected)
            for name in names:
                assert not differences(name, results_of(one, states, name), results_of(expected, final, name))


def test_an_assignment_that_is_outdated_claims_nothing(tmp_path: Path, log: ReplayableLog) -> None:
    model, states = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states"))
    with Store(tmp_path / "store.sqlite") as store:
        results = StoredResults(store)
        assert results.claim({"m1": 7}, {}) == {"m1": 1}
        with Shard("s1", log, results, states, config=QUICK) as shard:
            shard.assign(table(assignment("m1", model, version=6)))
            until(lambda: shard.status().fenced == ("m1",))
            shard.assign(table(assignment("m1", model, version=8)))
            until(lambda: len(shard.status().machines) == 1)
        again = StoredResults(store)
        assert again.claim({"m1": 7}, {}) == {}
        assert again.claim({"m1": 8}, {}) == {"m1": 3}


def test_a_machine_that_cannot_go_on_does_not_hold_up_its_neighbours(
    tmp_path: Path, log: ReplayableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, states = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states"))
    apply = Watch.apply

    def slow_or_broken(watch: Watch, entry: Entry) -> WatchResult:
        if watch.machine == "slow":
            time.sleep(0.3)
        if watch.machine == "broken":
            raise RuntimeError("a fault of the program")
        return apply(watch, entry)

    monkeypatch.setattr(Watch, "apply", slow_or_broken)
    for name in ("broken", "slow", "quick"):
        publish(log, blocks_of(name))
    with Store(tmp_path / "store.sqlite") as store:
        results = StoredResults(store)
        with Shard("s1", log, results, states, config=QUICK) as shard:
            shard.assign(table(*(assignment(name, model) for name in ("broken", "slow", "quick"))))
            until(lambda: caught_up(shard, log, "quick"))
            assert not caught_up(shard, log, "slow")
            until(lambda: any(one.stopped for one in shard.status().machines))
            stopped = [one.machine for one in shard.status().machines if one.stopped]
    assert stopped == ["broken"]


def test_a_machine_without_a_model_does_not_keep_the_others_waiting(tmp_path: Path, log: ReplayableLog) -> None:
    model, states = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states"))
    publish(log, blocks_of("good"))
    with Store(tmp_path / "store.sqlite") as store:
        results = StoredResults(store)
        with Shard("s1", log, results, states, config=QUICK) as shard:
            shard.assign(table(assignment("bad", tmp_path / "nowhere"), assignment("good", model)))
            until(lambda: caught_up(shard, log, "good"))
            assert [one.task for one in shard.status().problems] == ["prepare bad"]


def test_records_are_removed_once_no_state_needs_them(tmp_path: Path, log: ReplayableLog) -> None:
    model, states = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states"))
    config = replace(QUICK, trim_seconds=0.05)
    with Store(tmp_path / "store.sqlite") as store:
        results = StoredResults(store)
        with Shard("s1", log, results, states, config=config) as shard:
            shard.assign(table(assignment("m1", model)))
            for block in blocks_of("m1"):
                publish(log, [block])
                time.sleep(0.02)
            until(lambda: log.begin("m1") > 0)
        oldest = min(MachineStates(states.below("m1"), 1).positions()[-3:])
        assert log.begin("m1") <= oldest
        assert next(iter(log.read("m1", log.begin("m1")))).position >= log.begin("m1")


def test_a_damaged_state_is_replaced_by_the_one_before(tmp_path: Path, log: ReplayableLog) -> None:
    model, states = model_in(tmp_path), ObjectFolder.of(str(tmp_path / "states"))
    with Store(tmp_path / "store.sqlite") as store:
        results = StoredResults(store)
        for part in (slice(0, 30), slice(30, 60)):
            publish(log, blocks_of("m1")[part])
            with Shard("s1", log, results, states, config=QUICK) as shard:
                shard.assign(table(assignment("m1", model)))
                until(partial(caught_up, shard, log, "m1"))
        damaged = tmp_path / "states" / "m1" / states.below("m1").names()[-1]
        damaged.write_bytes(damaged.read_bytes()[:-100])
        with Shard("s1", log, results, states, config=QUICK) as shard:
            shard.assign(table(assignment("m1", model)))
            # The machine learns that a state was damaged by a remark in its log, as in a single service.
            until(lambda: any(b"cut short" in record.payload for record in log.read("m1", 0)))
            until(lambda: caught_up(shard, log, "m1"))
        with Store(tmp_path / "expected.sqlite") as expected:
            final = apply_log(log, [machine_config("m1", model)], expected)
            assert not differences("m1", results_of(store, states, "m1"), results_of(expected, final, "m1"))


class Partitioned:
    """Results that a shard cannot reach for a while."""

    def __init__(self, store: StoredResults) -> None:
        self.store, self._open = store, Event()
        self._open.set()

    def block(self) -> None:
        self._open.clear()

    def unblock(self) -> None:
        self._open.set()

    def claim(self, versions: Mapping[str, int], above: Mapping[str, int]) -> Mapping[str, int]:
        return self.store.claim(versions, above)

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        return self.store.continued_numbers(machine)

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        if not self._open.is_set():
            raise UnavailableError("no network") from ConnectionError(0, "no network")
        return self.store.write(batches)


def kill(shard: Shard, results: Partitioned) -> None:
    """End the threads of a shard; what it has in memory alone is lost."""
    results.block()
    shard._ended.set()
    shard._work.set()
    shard._thread.join()
    shard._persister.close()
    for machine in shard._hosted.values():
        machine.close()
