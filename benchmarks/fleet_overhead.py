"""What does the fleet path cost? A shard that reads NATS JetStream, against a service that reads its journals.

    python -m benchmarks.fleet_overhead --machines 4 --seconds 40 --repeats 5

Both diagnose the same blocks, which are in the log or in the journals before the time begins, with the small model of
``benchmarks/kills.py``, and learn from most windows. Each has one thread that works; both write their results to a
store of their own, and a state of each machine a second. The two take turns. The time ends when all results are on the
disk; the processor time is that of the process, without nats-server.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from benchmarks import kills
from benchmarks.fleet.streams import block_of, machine_configs

from cgsa.fleet.assignments import Assignment, AssignmentTable
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import RowSelection, Store
from cgsa.live.watch import BLOCK
from cgsa.live.worker import WorkerConfig


@dataclass
class OverheadReport:
    """Windows per second of both paths; medians, with the lowest and the highest."""

    machines: int
    windows: int
    service: tuple[float, float, float]
    shard: tuple[float, float, float]
    service_cpu: tuple[float, float, float]
    """Windows per second of processor time."""
    shard_cpu: tuple[float, float, float]
    overhead: float
    """By how much longer a shard takes, as a share."""
    overhead_cpu: float


@dataclass(frozen=True)
class Timing:
    """What one run took."""

    windows: int
    seconds: float
    cpu: float


def time_service(folder: Path, machines: tuple[MachineConfig, ...], blocks: list[Block]) -> Timing:
    """Diagnose what is in the journals of a service."""
    config = WorkerConfig(checkpoint_seconds=1.0, shed_above=1e6, max_waiting=1e7)
    plant = Plant(folder, threads=1, config=config)
    for machine in machines:
        plant.add(machine)
    for block in blocks:
        plant.submit(block)
    begun, cpu = time.perf_counter(), time.process_time()
    with plant:
        while any(worker.has_work for worker in plant.workers.values()):
            time.sleep(0.001)
        plant.store.flush()
        took = time.perf_counter() - begun, time.process_time() - cpu
        windows = sum(worker.watch.counts.windows for worker in plant.workers.values())
    return Timing(windows, *took)


def time_shard(
    folder: Path, machines: tuple[MachineConfig, ...], blocks: list[Block], config: JetStreamConfig
) -> Timing:
    """Diagnose what is in the log of a fleet."""
    folder.mkdir()
    with JetStreamLog(config) as log, Store(folder / "store.sqlite") as store:
        for block in blocks:
            log.append(block.machine, BLOCK, block.to_bytes(), key=str(block.sequence))
        ends = {machine.name: log.end(machine.name) for machine in machines}
        results, states = StoredResults(store), ObjectFolder.of(str(folder / "states"))
        shard = Shard("s1", log, results, states, config=ShardConfig(checkpoint_seconds=1.0, trim_seconds=None))
        shard.assign(AssignmentTable(1, tuple(Assignment(machine, "s1", 1) for machine in machines), ("s1",)))
        begun, cpu = time.perf_counter(), time.process_time()
        with shard:
            # Reported once the results are durable.
            while any(log.processed().get(name, 0) < end for name, end in ends.items()):
                time.sleep(0.001)
            took = time.perf_counter() - begun, time.process_time() - cpu
        store.flush()
        with store.read() as snapshot:
            pages = [snapshot.diagnoses(machine.name, RowSelection(limit=1000)) for machine in machines]
        return Timing(sum(row.diagnosis.windows for page in pages for row in page.rows), *took)


def measure(machines: int, seconds: float, repeats: int) -> OverheadReport:
    """Time both paths in turn."""
    torch.set_num_threads(1)
    services, shards = [], []
    with tempfile.TemporaryDirectory() as place, NatsServer(Path(place) / "nats") as server:
        folder = Path(place)
        kills.make_model(folder / "model")
        configs = machine_configs(folder / "model", machines)
        blocks = [
            block_of(template, number, machine.name)
            for template in kills.make_blocks(seconds)
            for number, machine in enumerate(configs)
        ]
        for number in range(repeats + 1):
            service = time_service(folder / f"service-{number}", configs, blocks)
            log = JetStreamConfig(NatsConfig((server.address,)), name=f"fleet-{number}")
            shard = time_shard(folder / f"shard-{number}", configs, blocks, log)
            if service.windows != shard.windows:
                raise RuntimeError(f"the service diagnosed {service.windows} windows, the shard {shard.windows}")
            # The first pair compiles and loads what the others have.
            if number:
                services.append(service)
                shards.append(shard)
    return OverheadReport(
        machines,
        services[0].windows,
        _spread([one.windows / one.seconds for one in services]),
        _spread([one.windows / one.seconds for one in shards]),
        _spread([one.windows / one.cpu for one in services]),
        _spread([one.windows / one.cpu for one in shards]),
        round(median(one.seconds for one in shards) / median(one.seconds for one in services) - 1, 3),
        round(median(one.cpu for one in shards) / median(one.cpu for one in services) - 1, 3),
    )


def _spread(values: list[float]) -> tuple[float, float, float]:
    return round(median(values)), round(min(values)), round(max(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=40.0, help="seconds of signal of each machine")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    print(json.dumps(asdict(measure(chosen.machines, chosen.seconds, chosen.repeats))))


if __name__ == "__main__":
    main()
