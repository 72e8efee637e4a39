"""The commands of a roll-out, on a fleet in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from cgsa.cli.fleet_rollout import roll_out
from cgsa.errors import ConfigError, DataError
from cgsa.fleet.assignments import AssignmentFolder, AssignmentTable
from cgsa.fleet.controller import Controller
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.rollout import promote, shadow_pairs, start_rollout, take_back
from cgsa.fleet.rollout_summary import RolloutSummary, summarise_rollout
from cgsa.live.store import Store
from tests.fleet.machines import blocks_of, machine_config, model_in, publish, until
from tests.fleet.test_controller import Nodes
from tests.machines import bundle

NAMES = ("m1", "m2", "m3", "m4")


class LocalFleet:
    """What :class:`cgsa.fleet.cluster.Fleet` does by way of Ray."""

    def __init__(self, folder: Path, log: ReplayableLog, store: Store) -> None:
        self.log, self._store, self.nodes = log, store, Nodes(folder, log, store)
        self.controller = Controller(AssignmentFolder(ObjectFolder.of(str(folder / "assignments"))), self.nodes.start)

    def start_rollout(self, new: str, share: float, *, old: str | None = None) -> None:
        self.controller.change(partial(start_rollout, new=new, share=share, ends=self._ends(), old=old))

    def promote(self) -> None:
        self.controller.change(partial(promote, ends=self._ends()))

    def take_back(self) -> None:
        self.controller.change(take_back)

    def table(self) -> AssignmentTable:
        return self.controller.table

    def compare(self) -> RolloutSummary:
        self._store.flush()
        with self._store.read() as snapshot:
            return summarise_rollout(snapshot, shadow_pairs(self.table()))

    def settle(self) -> None:
        """Wait until everything that was published is processed, by shadows, too."""
        pairs = {**{name: name for name in NAMES}, **shadow_pairs(self.table())}
        for machine in NAMES:
            until(lambda: self.log.processed().get(machine, 0) >= self.log.end(machine))  # noqa: B023
            until(lambda: self.log.processed().get(pairs[machine], 0) >= self.log.end(machine))  # noqa: B023
        self.controller.check()

    def _ends(self) -> dict[str, int]:
        return {name: self.log.end(name) for name in NAMES}


@pytest.fixture
def fleet(tmp_path: Path, nats_server: NatsServer) -> Iterator[LocalFleet]:
    config = JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")
    with JetStreamLog(config) as log, Store(tmp_path / "store.sqlite") as store:
        found = LocalFleet(tmp_path, log, store)
        found.controller.set_shards(("s1", "s2"))
        found.controller.add(*(machine_config(name, model_in(tmp_path)) for name in NAMES))
        yield found
        found.nodes.stop()
        found.controller.close()


def ask(fleet: LocalFleet, bundle: Path | None = None, *, promote: bool = False, take_back: bool = False) -> None:
    roll_out(fleet, bundle, 0.5, None, promote=promote, take_back=take_back, as_json=True)  # type: ignore[arg-type]


def test_a_model_is_compared_promoted_and_taken_back(
    fleet: LocalFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = str(model_in(tmp_path)), str(model_in(tmp_path, seed=1))
    sent = {name: blocks_of(name, 9.0, seed=seed) for seed, name in enumerate(NAMES)}

    def send(part: slice) -> None:
        for name in NAMES:
            publish(fleet.log, sent[name][part])
        fleet.settle()

    def bundles() -> list[str]:
        return sorted(str(one.machine.bundle) for one in fleet.table().assignments if not one.log)

    send(slice(0, 30))
    ask(fleet, Path(new))
    send(slice(30, 60))
    capsys.readouterr()
    ask(fleet)
    found = json.loads(capsys.readouterr().out)
    assert found["rollout"]["stage"] == "shadow"
    assert len(found["machines"]) == 2
    assert found["common_seconds"] > 2.0
    assert 0 <= found["disagreement"] <= 1
    assert all(one["shadow"]["seconds"] > 1 for one in found["machines"])
    assert bundles() == [old] * 4
    ask(fleet, promote=True)
    assert sorted(bundles()) == sorted([old] * 2 + [new] * 2)
    send(slice(60, 90))
    ask(fleet, take_back=True)
    assert bundles() == [old] * 4
    ask(fleet, Path(new))
    ask(fleet, promote=True)
    ask(fleet, promote=True)
    assert bundles() == [new] * 4
    assert not shadow_pairs(fleet.table())


def test_a_model_of_another_signal_is_refused(fleet: LocalFleet, tmp_path: Path) -> None:
    fitting = bundle(0)
    replace(fitting, manifest=replace(fitting.manifest, sample_rate=999.0)).save(tmp_path / "other")
    with pytest.raises(ConfigError, match="other sample_rate"):
        ask(fleet, tmp_path / "other")
    with pytest.raises(ConfigError, match="expected one of them"):
        ask(fleet, promote=True, take_back=True)
    with pytest.raises(DataError, match="no bundle"):
        ask(fleet, promote=True)


def test_the_comparison_is_printed(fleet: LocalFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show = partial(roll_out, fleet, None, 0.5, None, promote=False, take_back=False, as_json=False)  # type: ignore[arg-type]
    show()
    assert "no bundle is being rolled out" in capsys.readouterr().out
    ask(fleet, model_in(tmp_path, seed=1))
    capsys.readouterr()
    show()
    said = capsys.readouterr().out
    assert "stage shadow: on 2 machines" in said
    assert "unknown" in said
