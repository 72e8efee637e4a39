"""What does the fleet path cost? A shard that reads NATS JetStream, against a service that reads its journals.

    python -m benchmarks.fleet_overhead --machines 4 --seconds 40 --repeats 5
    python -m benchmarks.fleet_overhead --machines 4 --seconds 40 --repeats 5 --whole

Both diagnose the same blocks with the small model of ``benchmarks/kills.py``, and learn from most windows. Each has one
thread that works; both write their results to a store of their own, and a state of each machine a second. The two take
turns. The time ends when all results are on the disk.

Without ``--whole``, the blocks are in the log or in the journals before the time begins, and processor time is that of
the process alone. With it, the time includes their way there: one thread per machine hands over its blocks in order,
to the service, or to a gateway that publishes them; and processor time includes nats-server.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from benchmarks import kills
from benchmarks.fleet.streams import block_of, machine_configs

from cgsa.fleet.assignments import Assignment, AssignmentTable
from cgsa.fleet.gateway import Gateway, GatewayConfig
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


def _plant(folder: Path, machines: tuple[MachineConfig, ...]) -> Plant:
    plant = Plant(folder, threads=1, config=WorkerConfig(checkpoint_seconds=1.0, shed_above=1e6, max_waiting=1e7))
    for machine in machines:
        plant.add(machine)
    return plant


def time_whole_service(folder: Path, machines: tuple[MachineConfig, ...], blocks: list[Block]) -> Timing:
    """Hand blocks to a service, and diagnose them."""
    plant = _plant(folder, machines)
    with plant:
        begun, cpu = time.perf_counter(), time.process_time()
        send(plant.submit, blocks)
        while any(worker.has_work for worker in plant.workers.values()):
            time.sleep(0.001)
        plant.store.flush()
        took = time.perf_counter() - begun, time.process_time() - cpu
        windows = sum(worker.watch.counts.windows for worker in plant.workers.values())
    return Timing(windows, *took)


def time_whole_fleet(
    folder: Path, machines: tuple[MachineConfig, ...], blocks: list[Block], config: JetStreamConfig, server: NatsServer
) -> Timing:
    """Hand blocks to a gateway, and diagnose them in a shard."""
    folder.mkdir()
    with JetStreamLog(config) as log, JetStreamLog(config) as own, Store(folder / "store.sqlite") as store:
        names = [machine.name for machine in machines]
        gateway = Gateway(log, lambda: names, GatewayConfig(shed_above=1e6, max_waiting=1e7))
        states = ObjectFolder.of(str(folder / "states"))
        settings = ShardConfig(checkpoint_seconds=1.0, trim_seconds=None)
        with Shard("s1", own, StoredResults(store), states, config=settings) as shard:
            shard.assign(AssignmentTable(1, tuple(Assignment(machine, "s1", 1) for machine in machines), ("s1",)))
            while len(shard.status().machines) < len(machines):
                time.sleep(0.001)
            begun, cpu = time.perf_counter(), time.process_time() + server.cpu_seconds
            send(gateway.submit, blocks)
            ends = {name: own.end(name) for name in names}
            while any(own.processed().get(name, 0) < end for name, end in ends.items()):
                time.sleep(0.001)
            took = time.perf_counter() - begun, time.process_time() + server.cpu_seconds - cpu
        return Timing(_stored_windows(store, machines), *took)


def send(submit: Callable[[Block], object], blocks: list[Block]) -> None:
    """Hand over the blocks of each machine in order, all machines at once."""
    by_machine: dict[str, list[Block]] = {}
    for block in blocks:
        by_machine.setdefault(block.machine, []).append(block)
    with ThreadPoolExecutor(len(by_machine)) as threads:
        for done in [threads.submit(lambda own: [submit(block) for block in own], own) for own in by_machine.values()]:
            done.result()


def time_service(folder: Path, machines: tuple[MachineConfig, ...], blocks: list[Block]) -> Timing:
    """Diagnose what is in the journals of a service."""
    plant = _plant(folder, machines)
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
        return Timing(_stored_windows(store, machines), *took)


def _stored_windows(store: Store, machines: tuple[MachineConfig, ...]) -> int:
    with store.read() as snapshot:
        pages = [snapshot.diagnoses(machine.name, RowSelection(limit=1000)) for machine in machines]
    return sum(row.diagnosis.windows for page in pages for row in page.rows)


def measure(machines: int, seconds: float, repeats: int, *, whole: bool) -> OverheadReport:
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
            places = folder / f"service-{number}", folder / f"shard-{number}"
            log = JetStreamConfig(NatsConfig((server.address,)), name=f"fleet-{number}")
            if whole:
                service = time_whole_service(places[0], configs, blocks)
                shard = time_whole_fleet(places[1], configs, blocks, log, server)
            else:
                service = time_service(places[0], configs, blocks)
                shard = time_shard(places[1], configs, blocks, log)
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
    parser.add_argument("--whole", action="store_true", help="from the hand-over of the blocks on")
    chosen = parser.parse_args()
    print(json.dumps(asdict(measure(chosen.machines, chosen.seconds, chosen.repeats, whole=chosen.whole))))


if __name__ == "__main__":
    main()
