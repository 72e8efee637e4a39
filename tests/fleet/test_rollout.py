from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from benchmarks.fleet.comparison import differences, results_of
from benchmarks.fleet.reference import apply_log

from cgsa.errors import ConfigError, DataError
from cgsa.fleet.assignments import Assignment, AssignmentFolder, AssignmentTable
from cgsa.fleet.controller import Controller
from cgsa.fleet.gateway import KnownMachines
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.machine_log import MachineLog
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.rollout import current_config, promote, shadow_pairs, start_rollout, take_back
from cgsa.fleet.rollout_summary import summarise_rollout
from cgsa.live.store import RowSelection, Store
from tests.fleet.machines import blocks_of, machine_config, model_in, publish, same_tensors, until
from tests.fleet.test_controller import Nodes

NAMES = ("m1", "m2", "m3", "m4")


@pytest.fixture
def log(nats_server: NatsServer) -> Iterator[ReplayableLog]:
    with JetStreamLog(JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")) as opened:
        yield opened


def table_of(names: tuple[str, ...] = NAMES, bundle: str = "old") -> AssignmentTable:
    assignments = tuple(Assignment(machine_config(name, Path(bundle)), "s1", 1) for name in names)
    return AssignmentTable(7, assignments, ("s1",))


def bundles(table: AssignmentTable) -> dict[str, str]:
    return {one.machine.name: str(one.machine.bundle) for one in table.assignments if not one.log}


def test_a_bundle_goes_to_some_machines_and_then_to_all() -> None:
    ends = dict.fromkeys(NAMES, 50)
    shadow = start_rollout(table_of(), "new", 0.3, ends)
    assert shadow.rollout is not None
    assert shadow == start_rollout(table_of(), "new", 0.3, ends)
    chosen = shadow.rollout.machines
    assert len(chosen) == 2
    assert set(bundles(shadow).values()) == {"old"}
    shadows = [one for one in shadow.assignments if one.log]
    assert {(one.log, str(one.machine.bundle), one.begin) for one in shadows} == {(name, "new", 50) for name in chosen}
    assert {one.machine.name for one in shadow.assignments if one.keep_from == 50} == set(chosen)
    canary = promote(replace(shadow, version=8), dict.fromkeys(NAMES, 90))
    assert bundles(canary) == {name: "new" if name in chosen else "old" for name in NAMES}
    shadows = [one for one in canary.assignments if one.log]
    assert {(one.log, str(one.machine.bundle), one.begin) for one in shadows} == {(name, "old", 90) for name in chosen}
    assert not set(shadow_pairs(shadow).values()) & set(shadow_pairs(canary).values())
    for back in (take_back(shadow), take_back(canary)):
        assert replace(back, version=7) == table_of()
    final = promote(canary, ends)
    assert set(bundles(final).values()) == {"new"}
    assert final.rollout is None
    assert not shadow_pairs(final)
    assert {one.keep_from for one in final.assignments} == {None}


def test_settings_that_name_a_replaced_bundle_do_not_bring_it_back() -> None:
    table = start_rollout(table_of(), "new", 0.5, dict.fromkeys(NAMES, 0))
    canary = promote(table, dict.fromkeys(NAMES, 0))
    settings = [one.machine for one in table_of().assignments]
    assert {one.name: current_config(canary, one).bundle for one in settings} == bundles(canary)
    final = promote(canary, {})
    assert {str(current_config(final, one).bundle) for one in settings} == {"new"}
    # The old one is rolled out again.
    again = promote(promote(start_rollout(final, "old", 1.0, dict.fromkeys(NAMES, 0)), dict.fromkeys(NAMES, 0)), {})
    assert set(bundles(again).values()) == {"old"}
    assert {str(current_config(again, one).bundle) for one in settings} == {"old"}


def test_mistakes_in_a_rollout_are_named() -> None:
    running = start_rollout(table_of(), "new", 0.5, dict.fromkeys(NAMES, 0))
    with pytest.raises(DataError, match="being rolled out"):
        start_rollout(running, "newer", 0.5, {})
    with pytest.raises(ConfigError, match="share of 0"):
        start_rollout(table_of(), "new", 0.0, {})
    with pytest.raises(ConfigError, match="one that is replaced"):
        start_rollout(
            replace(table_of(), assignments=(*table_of().assignments, *table_of(("m9",), "x").assignments)),
            "new",
            1.0,
            {},
        )
    with pytest.raises(ConfigError, match="other than the new one"):
        start_rollout(table_of(), "old", 0.5, {})
    with pytest.raises(DataError, match="no bundle is being rolled out"):
        promote(table_of(), {})
    with pytest.raises(DataError, match="no bundle is being rolled out"):
        take_back(table_of())


def test_a_shadow_finds_what_its_model_finds_in_the_same_records(
    tmp_path: Path, log: ReplayableLog, nats_server: NatsServer
) -> None:
    """And the machine itself gets the verdicts that it would have got without one."""
    old, new = model_in(tmp_path), model_in(tmp_path, seed=1)
    folder = ObjectFolder.of(str(tmp_path / "assignments"))
    with Store(tmp_path / "store.sqlite") as store:
        nodes = Nodes(tmp_path, log, store)
        controller = Controller(AssignmentFolder(folder), nodes.start)
        controller.set_shards(("s1", "s2"))
        controller.add(machine_config("m1", old), machine_config("m2", old))
        sent = {name: blocks_of(name, seed=seed) for seed, name in enumerate(("m1", "m2"))}
        ends = {}
        for name, blocks in sent.items():
            publish(log, blocks[:20])
            ends[name] = log.end(name)
        controller.change(lambda table: start_rollout(table, str(new), 0.5, ends))
        [(machine, shadow)] = shadow_pairs(controller.table).items()
        for blocks in sent.values():
            publish(log, blocks[20:40])
        assert set(KnownMachines(folder)()) == {"m1", "m2"}
        until(lambda: log.processed().get(shadow, 0) >= log.end(machine))
        controller.move(shadow, next(s for s in ("s1", "s2") if s != controller.table.by_machine[shadow].shard))
        for blocks in sent.values():
            publish(log, blocks[40:])
        until(lambda: all(log.processed().get(name, 0) >= log.end(name) for name in sent))
        until(lambda: log.processed().get(shadow, 0) >= log.end(machine))
        with store.read() as snapshot:
            summary = summarise_rollout(snapshot, shadow_pairs(controller.table))
            again = summarise_rollout(snapshot, shadow_pairs(controller.table))
        assert summary == again
        assert 3.0 < summary.common_seconds < 4.5
        assert summary.disagreement is not None
        nodes.stop()
        with Store(tmp_path / "expected.sqlite") as expected:
            final = apply_log(log, [machine_config(name, old) for name in sent], expected)
            for name in sent:
                assert not differences(name, results_of(store, nodes.states, name), results_of(expected, final, name))
            twin = apply_log(
                log,
                [machine_config(shadow, new)],
                expected,
                source=MachineLog(log, machine, shadow_begin=ends[machine]),
            )
            found, wanted = results_of(store, nodes.states, shadow), results_of(expected, twin, shadow)
            assert found.rows["diagnoses"] == wanted.rows["diagnoses"]
            assert same_tensors(found.tensors, wanted.tensors)
            # Nobody is alarmed by a shadow.
            assert not any(found.rows[kind] for kind in ("cases", "notes", "changes"))
        controller.close()


def test_a_machine_changes_its_model_between_two_records(tmp_path: Path, log: ReplayableLog) -> None:
    old, new = model_in(tmp_path), model_in(tmp_path, seed=1)
    folder = ObjectFolder.of(str(tmp_path / "assignments"))
    with Store(tmp_path / "store.sqlite") as store:
        nodes = Nodes(tmp_path, log, store)
        controller = Controller(AssignmentFolder(folder), nodes.start)
        controller.set_shards(("s1",))
        controller.add(machine_config("m1", old))
        sent = blocks_of("m1")
        publish(log, sent[:20])
        controller.change(lambda table: start_rollout(table, str(new), 1.0, {"m1": log.end("m1")}))
        publish(log, sent[20:40])
        until(lambda: log.processed().get("m1", 0) >= log.end("m1"))
        controller.check()
        controller.change(lambda table: promote(table, {"m1": log.end("m1")}))
        publish(log, sent[40:])
        until(lambda: log.processed().get("m1", 0) >= log.end("m1"))
        controller.check()
        controller.change(take_back)
        assert str(controller.table.by_machine["m1"].machine.bundle) == str(old)
        publish(log, blocks_of("m1", 9.0)[60:])
        until(lambda: log.processed().get("m1", 0) >= log.end("m1"))
        nodes.stop()
        with store.read() as snapshot:
            rows = snapshot.diagnoses("m1", RowSelection(limit=1000, newest_first=False)).rows
        batches = [row.diagnosis.batch for row in rows]
        assert batches == list(range(len(rows)))
        # What a model has not put into a batch when it is replaced is all that is missing.
        gaps = [after.diagnosis.begin - before.diagnosis.end for before, after in pairwise(rows)]
        assert max(gaps) < max(row.diagnosis.end - row.diagnosis.begin for row in rows)
        assert len([gap for gap in gaps if gap > 0]) == 2
        controller.close()
