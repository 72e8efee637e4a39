"""How many machines does one GPU watch through a shard? Students in stacks, with log, states and store around them.

    python -m benchmarks.fleet_gpu --device cuda --machines 1000 --seconds 20
    python -m benchmarks.fleet_gpu --device cpu --machines 4 --seconds 4 --small    # only whether it works

Each machine sends six channels at 12.8 kHz in blocks of a second, and CGSA with the paper's network learns from most
windows (1024 samples at step 16). All blocks are in the log before. The time begins when each machine has processed
four blocks, during which the model is loaded and kernels are recorded; it ends when all results are in the store.
States are not written: those of a thousand students of the paper's size have 84 GB.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from benchmarks import kills
from pyarrow.fs import LocalFileSystem

from cgsa.data.scenario import Condition
from cgsa.data.windows import WindowSpec
from cgsa.fleet.assignments import Assignment, AssignmentTable
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.fleet.student_stacks import StudentStacks
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.online.fleet import MACHINES_PER_STACK

RATE, CHANNELS = 12_800.0, ("a", "b", "c", "d", "e", "f")
WARM_UP = 4
"""Blocks of each machine before the time begins."""
SMALL = NetworkConfig(hidden=(64, 32, 16), tap=16)


class DroppedStates(ObjectFolder):
    """A folder that stays empty."""

    def below(self, name: str) -> ObjectFolder:
        """Return a folder in this one."""
        del name
        return self

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Drop a file."""


@dataclass(frozen=True)
class GpuReport:
    """What one shard did."""

    device: str
    machines: int
    signal_seconds: float
    """Of each machine."""
    seconds: float
    windows: int
    windows_per_second: float
    times_real_time: float
    learnt: int
    memory_mb: float | None
    """Most memory of the GPU."""


def make_model(folder: Path, network: NetworkConfig) -> None:
    """Write a model with the network, which is confident about many windows."""
    about = Manifest(
        classes=("health", "wear", "crack"),
        channels=CHANNELS,
        units=("g",) * len(CHANNELS),
        sample_rate=RATE,
        window=WindowSpec(),
        conditions=(Condition("torque", "Nm", 0.0, 10.0, 0.5),),
        network=network,
        discriminator=DiscriminatorConfig(),
        objective="cal",
    )
    net = build_seeded(0, lambda: DiagnosisNet(network, len(CHANNELS), about.window.length, 3))
    discriminator = build_seeded(0, lambda: ConditionDiscriminator(network.tap, DiscriminatorConfig(), 1))
    ModelBundle(about, net.eval(), discriminator.eval()).save(folder)


def measure(machines: int, seconds: int, device: str, network: NetworkConfig, together: int) -> GpuReport:
    """Run the machines through a shard."""
    torch.set_num_threads(1)
    names, rng = [f"m{number:04d}" for number in range(machines)], np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place, NatsServer(Path(place) / "nats") as server:
        folder = Path(place)
        make_model(folder / "model", network)
        config = JetStreamConfig(NatsConfig((server.address,)))
        with JetStreamLog(config) as log, Store(folder / "store.sqlite") as store:
            starts = {}
            for number in range(WARM_UP + seconds):
                samples = rng.standard_normal((len(CHANNELS), round(RATE))).astype(np.float32)
                for name in names:
                    block = Block(name, number, kills.BEGUN + number, RATE, CHANNELS, samples)
                    position = log.append(name, BLOCK, block.to_bytes(), key=str(number))
                    if number == WARM_UP:
                        starts[name] = position
            shard = Shard(
                "s1",
                log,
                StoredResults(store),
                DroppedStates(LocalFileSystem(), str(folder / "states")),
                config=ShardConfig(checkpoint_seconds=3600.0, trim_seconds=None),
                device=device,
                stacks=StudentStacks(device, together=together),
            )
            table = tuple(
                Assignment(
                    MachineConfig(name, folder / "model", profile="paper", method="cgsa", settings=kills.EVERY_WINDOW),
                    "s1",
                    1,
                )
                for name in names
            )
            shard.assign(AssignmentTable(1, table, ("s1",)))
            with shard:
                wait(log, starts)
                begun, before = time.perf_counter(), shard.status().machines
                wait(log, {name: log.end(name) for name in names})
                took, after = time.perf_counter() - begun, shard.status().machines
        windows = sum(one.windows for one in after) - sum(one.windows for one in before)
        return GpuReport(
            torch.cuda.get_device_name(device) if device != "cpu" else "cpu",
            machines,
            float(seconds),
            round(took, 2),
            windows,
            round(windows / took),
            round(windows / machines / (RATE / 16) / took, 2),
            sum(one.learnt for one in after),
            round(torch.cuda.max_memory_allocated(device) / 1e6, 1) if device != "cpu" else None,
        )


def wait(log: JetStreamLog, positions: Mapping[str, int]) -> None:
    """Wait until all records before these positions are processed and their results are durable."""
    while any(log.processed().get(name, 0) < position for name, position in positions.items()):
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20, help="seconds of signal of each machine")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--together", type=int, default=MACHINES_PER_STACK, help="machines that step at once")
    parser.add_argument("--small", action="store_true", help="a small network instead of the paper's")
    chosen = parser.parse_args()
    network = SMALL if chosen.small else NetworkConfig()
    print(json.dumps(asdict(measure(chosen.machines, chosen.seconds, chosen.device, network, chosen.together))))


if __name__ == "__main__":
    main()
