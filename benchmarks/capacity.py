"""How many machines fit on a core, and what does each one write? A model, fitted and tested on measurements.

    python -m benchmarks.capacity --output runs/capacity
    python -m benchmarks.publish measurements runs

Each measurement runs some machines of one kind through a shard that reads NATS JetStream, once for a while and once for
three times as long; the difference has no start-up in it. Processor time is that of the process with the shard, without
nats-server. Kinds are drawn at random; the model is fitted to most of them and predicts the others. Of several repeats
the one with the least processor time counts, since other work on the computer only adds to it.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from benchmarks import kills
from benchmarks.fleet.capacity_model import FEATURES, CapacityModel, MachineSetup
from benchmarks.result_files import Result, measure_all

from cgsa.bench.tables import Table
from cgsa.data.windows import WindowSpec
from cgsa.fleet.assignments import Assignment, AssignmentTable
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT

FITTED, HELD_OUT = 20, 6
REPEATS = 3
WINDOWS = 20_000
"""Windows of the shorter run."""
MACHINES = 2
CHECKPOINT_SECONDS = ShardConfig.checkpoint_seconds
EXAMPLES = {
    "one channel, 6.4 kHz, step 64, learns": MachineSetup(6400.0, 1, 1024, 64, 1.0, learns=True),
    "two channels, 12.8 kHz, step 16, learns": MachineSetup(12_800.0, 2, 1024, 16, 1.0, learns=True),
    "two channels, 12.8 kHz, step 16, frozen": MachineSetup(12_800.0, 2, 1024, 16, 1.0, learns=False),
    "four channels, 25.6 kHz, step 64, learns": MachineSetup(25_600.0, 4, 1024, 64, 1.0, learns=True),
}
"""Machines of the table of capacities."""


def setups(count: int = FITTED + HELD_OUT, seed: int = 0) -> list[MachineSetup]:
    """Return kinds of machines, drawn at random; the last ones are held out."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    found: dict[MachineSetup, None] = {}
    while len(found) < count:
        rate, channels, length = (
            rng.choice((6400.0, 12_800.0, 25_600.0)),
            rng.choice((1, 2, 4)),
            rng.choice((512, 1024)),
        )
        step, block = rng.choice((16, 32, 64)), rng.choice((0.1, 0.5, 1.0))
        found[MachineSetup(rate, channels, length, step, block, learns=rng.random() < 0.6)] = None
    return [*found]


def run_once(setup: MachineSetup, seconds: float, folder: Path, server: str) -> Result:
    """Run machines of a kind through a shard; return what that took in total."""
    folder.mkdir(parents=True)
    channels = tuple(f"c{number}" for number in range(setup.channels))
    window = WindowSpec(setup.length, setup.step)
    kills.make_model(folder / "model", rate=setup.rate, channels=channels, window=window)
    names = [f"m{number}" for number in range(MACHINES)]
    size, kind = round(setup.rate * setup.block_seconds), BLOCK if setup.learns else BLOCK_NOT_LEARNT
    config = JetStreamConfig(NatsConfig((server,)), name=f"f{folder.name}")
    rng = np.random.default_rng(0)
    with JetStreamLog(config) as log, Store(folder / "store.sqlite") as store:
        blocks = round(seconds / setup.block_seconds)
        for number in range(blocks):
            samples = rng.standard_normal((setup.channels, size)).astype(np.float32)
            for name in names:
                begun = kills.BEGUN + number * size / setup.rate
                block = Block(name, number, begun, setup.rate, channels, samples)
                log.append(name, kind, block.to_bytes(), key=f"{number}")
        ends = {name: log.end(name) for name in names}
        results, states = StoredResults(store), ObjectFolder.of(str(folder / "states"))
        shard = Shard(
            "s1",
            log,
            results,
            states,
            config=ShardConfig(checkpoint_seconds=1e6, write_seconds=0.05, trim_seconds=None),
        )
        settings = kills.EVERY_WINDOW
        table = tuple(
            Assignment(MachineConfig(name, folder / "model", profile="paper", settings=settings), "s1", 1)
            for name in names
        )
        shard.assign(AssignmentTable(1, table, ("s1",)))
        begun_cpu = time.process_time()
        shard.start()
        while any(log.processed().get(name, 0) < end for name, end in ends.items()):
            time.sleep(0.005)
        cpu, saving = time.process_time() - begun_cpu, time.process_time()
        counts = {one.machine: (one.windows, one.learnt) for one in shard.status().machines}
        shard.stop()
        saved = time.process_time() - saving
        store.flush()
    state_sizes = [file.stat().st_size for file in (folder / "states").glob("*/*.state")]
    return {
        "cpu": cpu,
        "state_cpu": saved,
        "state": float(np.mean(state_sizes)),
        "states": len(state_sizes),
        "store": sum(file.stat().st_size for file in folder.glob("store.sqlite*")),
        "windows": sum(one[0] for one in counts.values()),
        "learnt": sum(one[1] for one in counts.values()),
        "seconds": blocks * setup.block_seconds,
    }


def measure(item: tuple[MachineSetup, bool]) -> Result:
    """Measure one kind of machine, which may be held out from the fit."""
    setup, held_out = item
    short = max(4.0, WINDOWS / setup.windows / MACHINES)
    with tempfile.TemporaryDirectory() as place:
        # The first run compiles and loads what the others have.
        with NatsServer(Path(place) / "nats") as server:
            run_once(setup, 2.0, Path(place) / "first", server.address)
            runs = [
                [
                    run_once(setup, length, Path(place) / f"{length:.0f}-{n}", server.address)
                    for length in (short, 3 * short)
                ]
                for n in range(REPEATS)
            ]
        sizes = []
        for name, length in (("short", short), ("long", 3 * short)):
            # A server of its own, since the log is a folder of the server.
            with NatsServer(Path(place) / f"nats-{name}") as server:
                run_once(setup, length, Path(place) / name, server.address)
            files = (Path(place) / f"nats-{name}").rglob("*.blk")
            sizes.append(sum(file.stat().st_size for file in files))
    low = [min((pair[part] for pair in runs), key=lambda one: one["cpu"]) for part in (0, 1)]
    machine_seconds = MACHINES * (low[1]["seconds"] - low[0]["seconds"])
    every = [one for pair in runs for one in pair]
    return {
        **asdict(setup),
        "held_out": held_out,
        "cpu": (low[1]["cpu"] - low[0]["cpu"]) / machine_seconds,
        "log": (sizes[1] - sizes[0]) / machine_seconds,
        "store": (low[1]["store"] - low[0]["store"]) / machine_seconds,
        "state": low[1]["state"],
        "state_cpu": min(one["state_cpu"] / one["states"] for one in every),
        "windows": low[1]["windows"],
        "learnt": low[1]["learnt"],
    }


def setup_of(result: Result) -> MachineSetup:
    """Return the kind of machine of a measurement."""
    return MachineSetup(**{name: result[name] for name in MachineSetup.__dataclass_fields__})


def fitted_model(results: Sequence[Result]) -> CapacityModel:
    """Fit the model to the measurements that are not held out."""
    part = [one for one in results if not one["held_out"]]
    return CapacityModel.fit([setup_of(one) for one in part], {name: [one[name] for one in part] for name in FEATURES})


def table_of(results: Sequence[Result]) -> Table:
    """Return how far the model is off, on the measurements that it was fitted to and on those held out."""
    model, rows = fitted_model(results), []
    units = {"cpu": "processor time", "log": "bytes of log", "store": "bytes of store", "state": "bytes of a state"}
    for quantity, text in {**units, "state_cpu": "processor time of a state"}.items():
        errors = {
            held_out: [
                abs(model.predict(quantity, setup_of(one)) / one[quantity] - 1)
                for one in results
                if one["held_out"] == held_out
            ]
            for held_out in (False, True)
        }
        row = [f"{100 * value:.1f} %" for found in errors.values() for value in (np.median(found), max(found))]
        rows.append((text, *row))
    head = ("quantity", "fitted: median error", "fitted: largest", "held out: median error", "held out: largest")
    return Table("capacity", head, tuple(rows))


def machines_table(results: Sequence[Result]) -> Table:
    """Return what some machines cost."""
    model, rows = fitted_model(results), []
    for text, setup in EXAMPLES.items():
        load, day = model.load(setup, CHECKPOINT_SECONDS), model.per_day(setup, CHECKPOINT_SECONDS)
        size = model.predict("state", setup)
        rows.append(
            (
                text,
                f"{1 / load:.0f}",
                f"{day['log'] / 1e9:.2f}",
                f"{size / 1e6:.2f}",
                f"{day['states'] / 1e9:.1f}",
                f"{day['store'] / 1e9:.2f}",
            )
        )
    head = ("machine", "machines per core", "log, GB/day", "state, MB", "states written, GB/day", "store, GB/day")
    return Table("capacity_machines", head, tuple(rows))


def coefficients_table(results: Sequence[Result]) -> Table:
    """Return the coefficients."""
    model = fitted_model(results)
    rows = [
        (quantity, part, f"{value:.4g}")
        for quantity, parts in model.coefficients.items()
        for part, value in parts.items()
    ]
    return Table("capacity_coefficients", ("quantity", "part", "coefficient"), tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/capacity"))
    options = parser.parse_args()
    items = {options.output / f"{n:02d}.json": (setup, n >= FITTED) for n, setup in enumerate(setups())}
    # One after the other: a measurement of time needs a core for itself.
    found = measure_all(measure, items, workers=1)
    for table in (table_of(found), machines_table(found), coefficients_table(found)):
        print(table.markdown())


if __name__ == "__main__":
    main()
