"""Does a fleet lose anything? Many machines on a cluster that is killed piece by piece, against a single process.

    python -m benchmarks.fleet_kills --machines 64 --kills 10 --seconds 60

A local Ray cluster with several shards reads NATS JetStream; a driver starts the fleet and publishes what the machines
send, a tenth of a second at a time, and repeats some of it whenever it is started again. At random times one of these
is killed: a shard, by Ray (``actors``) and by SIGKILL (``workers``), the processes of controller and results, the
driver, and nats-server. In between, machines move from shard to shard. In the end, a single process applies the records
of the log to fresh watches. Every diagnosis, note and case in the store, every row of the ledger and all tensors of the
last states must be bit-identical to what that process found, and the log must hold each block exactly once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from benchmarks import kills
from benchmarks.fleet.comparison import differences, results_of
from benchmarks.fleet.reference import apply_log
from benchmarks.fleet.streams import machine_configs

from cgsa.config import as_table
from cgsa.fleet.config import FleetConfig, RayConfig
from cgsa.fleet.controller import ControllerConfig
from cgsa.fleet.local_ray import LocalRay
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.shard import ShardConfig
from cgsa.live.intake.block import Block
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK_KINDS


@dataclass
class FleetKillReport:
    """The outcome of the comparison."""

    machines: int
    shards: int
    kills: dict[str, int]
    moves: int
    blocks: int
    repeated: int
    """Rounds that the driver published again."""
    diagnoses: int
    notes: int
    ledger_rows: int
    learnt: int
    seconds: float
    """How long the fleet took, kills included."""
    differences: list[str]


def compare(config: FleetConfig, workspace: Path, seconds: float) -> tuple[list[str], dict[str, int]]:
    """Return where the fleet and a single process over the same log differ, and what was compared."""
    found: Counter[str] = Counter()
    problems: list[str] = []
    with (
        JetStreamLog(config.log) as log,
        Store(Path(config.folder) / "store.sqlite") as store,
        Store(workspace / "expected.sqlite") as expected,
    ):
        sent = [block.sequence for block in kills.make_blocks(seconds)]
        final = apply_log(log, config.machines, expected)
        for machine in config.machines:
            name = machine.name
            records = [one for one in log.read(name, 0) if one.kind in BLOCK_KINDS]
            if [Block.from_bytes(one.payload).sequence for one in records] != sent:
                problems.append(f"{name}: the log holds {len(records)} blocks; {len(sent)} were sent")
            ours, theirs = results_of(store, config.states_folder(), name), results_of(expected, final, name)
            problems += differences(name, ours, theirs)
            found += Counter(
                blocks=len(records),
                diagnoses=len(theirs.rows["diagnoses"]),
                notes=len(theirs.rows["notes"]),
                ledger_rows=len(theirs.ledger["window"]),
                learnt=final[name].counts.learnt,
            )
    return problems, dict(found)


def measure(*, machines: int, shards: int, count: int, seconds: float, seed: int) -> FleetKillReport:
    """Run a fleet with kills, and compare it with a single process."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="cgsa-fleet-") as place:
        workspace = Path(place)
        model, rounds = workspace / "model", len(kills.make_blocks(seconds))
        kills.make_model(model)
        with NatsServer(workspace / "nats") as server:
            with LocalRay(workspace / "ray", cores=shards + 1, environment={"OMP_NUM_THREADS": "1"}) as cluster:
                config = FleetConfig(
                    folder=str(workspace / "fleet"),
                    shards=shards,
                    log=JetStreamConfig(NatsConfig((server.address,)), remember_seconds=3600.0),
                    shard=ShardConfig(checkpoint_seconds=1.0, trim_seconds=None),
                    controller=ControllerConfig(check_seconds=0.5, lost_seconds=300.0),
                    ray=RayConfig(cluster.address),
                    machines=machine_configs(model, machines),
                )
                table = {"fleet": as_table(config), "seconds": seconds}
                (workspace / "driver.json").write_text(json.dumps(table), encoding="utf-8")
                # Ray reads its environment on import.
                from benchmarks.fleet.kill_run import run_fleet  # noqa: PLC0415

                begun = time.monotonic()
                killer = run_fleet(workspace, config, server, rounds=rounds, count=count, seed=seed)
                took = time.monotonic() - begun
            problems, found = compare(config, workspace, seconds)
    return FleetKillReport(
        machines=machines,
        shards=shards,
        kills=dict(killer.done),
        moves=killer.moves,
        repeated=killer.repeated,
        seconds=round(took, 1),
        differences=problems,
        **found,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10, help="kills of each kind")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of signal of each machine")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    found = measure(
        machines=chosen.machines, shards=chosen.shards, count=chosen.kills, seconds=chosen.seconds, seed=chosen.seed
    )
    print(json.dumps(asdict(found)))
    if found.differences:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
