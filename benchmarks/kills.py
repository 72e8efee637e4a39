"""Does a kill lose anything? One stream through a process that is killed repeatedly, against one without a kill.

    python benchmarks/kills.py --kills 200 --seconds 500

CGSA monitors a machine and learns from most windows. A sender submits blocks of a tenth of a second; after a kill it
repeats the blocks that were not acknowledged and, at times, a few that were. The process is killed with SIGKILL at
random times, while it starts, works, saves or replays, and is restarted. In the end, every diagnosis in the store,
every row of the ledger and all tensors of the last state (weights, moments of Adam, queue, decision) must be
bit-identical to those of a process that was never killed. Processes are forked, so that PyTorch is imported only
once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from cgsa.data.scenario import Condition
from cgsa.data.windows import WindowSpec
from cgsa.ledger.columns import LabelColumn
from cgsa.live.checkpoint import Checkpoints
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import RowSelection, Store
from cgsa.live.worker import WorkerConfig
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded

MACHINE, RATE, CHANNELS = "rig", 12_800.0, ("x", "y")
BLOCK = 1280
BEGUN = 1_700_000_000.0
EVERY_WINDOW = {"method": {"cgsa": {"tau": 1e9, "min_confidence": 0.34}}}
"""Settings under which CGSA learns from most windows."""
FURTHER_BLOCKS = 4
"""Blocks that a process may accept between the start of its countdown and its kill. Without this limit, a fast computer
would finish the stream before all kills are done."""
LONGEST_PAUSE = 0.2
"""Longest countdown in seconds."""


@dataclass
class KillReport:
    """The outcome of the comparison."""

    kills: int
    processes: int
    diagnoses: int
    ledger_rows: int
    learnt: int
    refused_blocks: int
    differences: list[str]


def make_model(
    folder: Path, *, rate: float = RATE, channels: tuple[str, ...] = CHANNELS, window: WindowSpec | None = None
) -> None:
    """Write a model with large scores, so that it is confident about many windows; by default, those of the paper."""
    about = Manifest(
        classes=("health", "wear", "crack"),
        channels=channels,
        units=("g",) * len(channels),
        sample_rate=rate,
        window=window or WindowSpec(),
        conditions=(Condition("torque", "Nm", 0.0, 10.0, 0.5),),
        network=NetworkConfig(hidden=(64, 32, 16), tap=16),
        discriminator=DiscriminatorConfig(hidden=(16, 16)),
        objective="cal",
    )
    network = build_seeded(0, lambda: DiagnosisNet(about.network, len(channels), about.window.length, 3))
    discriminator = build_seeded(0, lambda: ConditionDiscriminator(16, DiscriminatorConfig(hidden=(16, 16)), 1))
    with torch.no_grad():
        for parameter in network.G.parameters():
            parameter.mul_(20.0)
    ModelBundle(about, network.eval(), discriminator.eval()).save(folder)


def make_blocks(seconds: float) -> list[Block]:
    """Return a changing stream with an interval of sensor fault and a gap."""
    rng = np.random.default_rng(0)
    total = round(seconds * RATE / BLOCK) * BLOCK
    time_ = np.arange(total) / RATE
    line = np.sin(2 * np.pi * (300 + 20 * np.sin(0.3 * time_)) * time_)
    samples = (np.stack([line, 0.5 * line]) + 0.5 * rng.standard_normal((2, total))).astype(np.float32)
    samples[0, total // 3 : total // 3 + 5000] = 0.25
    whole = [
        Block(MACHINE, n, BEGUN + n * BLOCK / RATE, RATE, CHANNELS, samples[:, n * BLOCK : (n + 1) * BLOCK])
        for n in range(total // BLOCK)
    ]
    half = len(whole) // 2
    return [block for block in whole if block.sequence not in range(half, half + 3)]


def serve_blocks(folder: Path, model: Path, blocks: Sequence[Block], numbers: range, acknowledged: int) -> None:
    """Act as the service: resume, submit a range of the blocks, and wait for the kill unless the stream is complete."""
    torch.set_num_threads(1)
    with Plant(folder, threads=1, config=WorkerConfig(checkpoint_seconds=0.15)) as plant:
        worker = plant.add(MachineConfig(MACHINE, model, profile="paper", settings=EVERY_WINDOW))
        for number in numbers:
            plant.submit(blocks[number])
            os.write(acknowledged, number.to_bytes(4, "little"))
            while worker.waiting > 0.3:
                time.sleep(0.001)
        plant.wait_until_idle()
        while numbers.stop < len(blocks):
            time.sleep(0.1)


def start_process(folder: Path, model: Path, blocks: Sequence[Block], numbers: range) -> tuple[int, int]:
    """Start a process; return its id and the pipe on which it reports acknowledged blocks."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            serve_blocks(folder, model, blocks, numbers, writer)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    return child, reader


def wait_or_kill(child: int, reader: int, blocks: int | None, pause: float) -> tuple[int, bool]:
    """Wait for a process to end, or kill it after some blocks and a pause; return its blocks and if it was killed."""
    data, due, killed = b"", None, False
    os.set_blocking(reader, False)
    while True:
        try:
            piece = os.read(reader, 1 << 16)
        except BlockingIOError:
            piece = None
        if piece:
            data += piece
        elif piece == b"":
            break
        now = time.monotonic()
        if due is None and blocks is not None and len(data) // 4 >= blocks:
            due = now + pause
        if due is not None and now >= due and not killed:
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.001)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if not killed and status:
        raise RuntimeError(f"a process that was not killed ended with status {status}")
    return len(data) // 4, os.WIFSIGNALED(status)


def run_with_kills(
    folder: Path, model: Path, blocks: Sequence[Block], kills: int, rng: random.Random
) -> tuple[int, int]:
    """Send the stream through processes, killing this many; return the numbers of kills and of processes."""
    first = processes = killed = 0
    most = len(blocks) // (kills + 1) - FURTHER_BLOCKS
    if most < 1:
        raise SystemExit(f"{kills} kills need at least {(kills + 1) * (FURTHER_BLOCKS + 1) * BLOCK / RATE:.0f} seconds")
    while True:
        again = max(0, first - rng.choice((0, 0, 1, 3)))
        limit = None if killed >= kills else 0 if rng.random() < 0.2 else rng.randint(1, most)
        end = len(blocks) if limit is None else again + limit + FURTHER_BLOCKS
        child, reader = start_process(folder, model, blocks, range(again, end))
        got, was_killed = wait_or_kill(child, reader, limit, rng.uniform(0.0, LONGEST_PAUSE))
        first, processes = max(first, again + got), processes + 1
        if not was_killed:
            return killed, processes
        killed += 1
        if sys.stderr.isatty():
            print(f"\r{killed} kills, block {first} of {len(blocks)}", end="", file=sys.stderr)


def compare(ours: Path, expected: Path) -> tuple[list[str], dict[str, int]]:
    """Return the differences between two plants, and the counts of the first one."""
    differences = []
    tables: list[dict[str, object]] = []
    for folder in (ours, expected):
        state = Checkpoints(folder / "machines" / MACHINE / "states").newest()
        if state is None:
            raise RuntimeError(f"{folder}: no state")
        with Store(folder / "store.sqlite") as store, store.read() as snapshot:
            page = snapshot.diagnoses(MACHINE, RowSelection(limit=1000, newest_first=False))
            rows = list(page.rows)
            while page.more:
                page = snapshot.diagnoses(MACHINE, RowSelection(limit=1000, after=page.cursor, newest_first=False))
                rows += page.rows
            ledger = snapshot.ledger(MACHINE, 0.0, BEGUN * 2, limit=10**7)
        tables.append({"state": state, "rows": rows, "ledger": ledger})
    one, other = tables
    if one["rows"] != other["rows"]:
        differences.append("diagnoses")
    for name in other["ledger"]:  # type: ignore[attr-defined]
        a, b = one["ledger"][name], other["ledger"][name]  # type: ignore[index]
        same = (
            [a.labels[code] for code in a.codes] == [b.labels[code] for code in b.codes]
            if isinstance(a, LabelColumn)
            else np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
        if not same:
            differences.append(f"ledger: {name}")
    ours_state, theirs = one["state"], other["state"]
    for name, tensor in theirs.tensors.items():  # type: ignore[attr-defined]
        if not torch.equal(tensor.nan_to_num(), ours_state.tensors[name].nan_to_num()):  # type: ignore[attr-defined]
            differences.append(f"state: {name}")
    counts = ours_state.saved.about["watch"]["counts"]  # type: ignore[attr-defined]
    found = {"diagnoses": len(one["rows"]), "ledger": len(one["ledger"]["window"])}  # type: ignore[arg-type,index]
    return differences, {**found, **counts}


def measure(kills: int, seconds: float, seed: int) -> KillReport:
    """Send one stream through processes with kills and through one without, and compare the results."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as workspace:
        model, blocks = Path(workspace) / "model", make_blocks(seconds)
        make_model(model)
        run_with_kills(Path(workspace) / "uninterrupted", model, blocks, 0, random.Random(seed))  # noqa: S311, no secret
        killed, processes = run_with_kills(Path(workspace) / "killed", model, blocks, kills, random.Random(seed))  # noqa: S311
        differences, found = compare(Path(workspace) / "killed", Path(workspace) / "uninterrupted")
    return KillReport(
        killed, processes, found["diagnoses"], found["ledger"], found["learnt"], found["refused_blocks"], differences
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = measure(options.kills, options.seconds, options.seed)
    print(json.dumps(asdict(found)))
    if found.differences:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
