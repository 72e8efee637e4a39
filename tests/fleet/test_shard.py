from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.live.store import Store
from tests.fleet.comparison import differences, results_of
from tests.fleet.machines import assignment, blocks_of, machine_config, model_in, publish, until
from tests.fleet.reference import apply_log

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
        results = StoredResults(store, tmp_path / "claims.json")
        with Shard("s1", log, results, states, config=QUICK) as shard:
            shard.assign([assignment(name, model) for name in names])
            until(lambda: caught_up(shard, log, *names))
        with Store(tmp_path / "expected.sqlite") as expected:
            final = apply_log(log, [machine_config(name, model) for name in names], expected)
            for name in names:
                assert not differences(name, results_of(store, states, name), results_of(expected, final, name))
