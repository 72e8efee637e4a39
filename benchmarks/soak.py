"""Does the service keep its memory and disk use over a day? A day of stream through journal, watch, states and store.

    python benchmarks/soak.py MODEL RECORDING --hours 24

One machine under the profile `robust`, as fast as the computer allows. The recording repeats; at intervals a sensor
fails briefly, blocks are lost, and an operator acknowledges an alarm. Old rows are trimmed by stream time: the ledger
after an hour, in which it is thinned twice, all others after six. The script prints memory, open files, threads and
disk use for every hour of stream.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from cgsa.bench.tables import Table
from cgsa.data.readers import read_recording
from cgsa.errors import DataError
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import LedgerBudget, RowRetention
from cgsa.live.worker import Worker
from cgsa.nn.bundle import ModelBundle

MACHINE, BEGUN, BLOCK_SECONDS = "rig", 1_700_000_000.0, 0.25
HOUR = 3600.0
THINNED = LedgerBudget(whole_hours=0.25, sampled_hours=0.5)
KEPT = RowRetention(ledger=1 / 24, diagnoses=0.25, notes=0.25, snippets=0.25)


def usage(plant: Plant, worker: Worker, hours: float) -> tuple[str, ...]:
    """Return memory, files, threads and disk use, and the counts of windows."""
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6
    handles = len(list(Path("/proc/self/fd").iterdir()))
    disk = {
        name: sum(file.stat().st_size for file in (plant.folder / place).rglob("*") if file.is_file()) / 1e6
        for name, place in {"journal": f"machines/{MACHINE}/journal", "states": f"machines/{MACHINE}/states"}.items()
    }
    store = sum(file.stat().st_size for file in plant.folder.glob("store.sqlite*")) / 1e6
    counts = worker.watch.counts
    return (
        f"{hours:.1f}",
        f"{resident:.0f}",
        str(handles),
        str(threading.active_count()),
        f"{disk['journal']:.0f}",
        f"{disk['states']:.0f}",
        f"{store:.0f}",
        f"{counts.windows:,}",
        f"{counts.flagged:,}",
        f"{counts.gaps:,}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--hours", type=float, default=24.0)
    options = parser.parse_args()
    about = ModelBundle.load(options.model).manifest
    samples = read_recording(options.recording).select(about.channels).signal
    size = round(BLOCK_SECONDS * about.sample_rate)
    pieces = [np.ascontiguousarray(samples[:, n : n + size]) for n in range(0, samples.shape[1] - size + 1, size)]
    rows, begun, total = [], time.monotonic(), round(options.hours * HOUR / BLOCK_SECONDS)
    with tempfile.TemporaryDirectory() as folder, Plant(Path(folder), threads=1) as plant:
        worker = plant.add(MachineConfig(MACHINE, options.model))
        arrival = BEGUN
        plant.store.clock = lambda: arrival
        for number in range(total):
            if number % 5000 in range(4900, 4903):
                continue
            piece = pieces[number % len(pieces)]
            if number % 3000 == 2000:
                piece = np.full_like(piece, 0.5)
            clock = arrival = BEGUN + number * BLOCK_SECONDS
            plant.submit(Block(MACHINE, number, clock, about.sample_rate, about.channels, piece))
            while worker.waiting > 1.0:
                time.sleep(0.0005)
            if number % 20_000 == 19_999:
                acknowledge(worker)
            if (number + 1) % round(HOUR / BLOCK_SECONDS) == 0 or number + 1 == total or number == 4000:
                plant.wait_until_idle()
                plant.store.thin(clock, THINNED)
                plant.store.trim(clock, KEPT)
                plant.store.flush()
                rows.append(usage(plant, worker, (number + 1) * BLOCK_SECONDS / HOUR))
                print(rows[-1], f"{time.monotonic() - begun:.0f} s", flush=True)
    columns = ("hours", "memory, MB", "open files", "threads", "journal, MB", "states, MB", "store, MB")
    print(f"\n{os.uname().machine}, {options.hours:g} h of stream in {time.monotonic() - begun:.0f} s\n")
    print(Table("soak", (*columns, "windows", "rejected by the quality gate", "gaps"), tuple(rows)).markdown())


def acknowledge(worker: Worker) -> None:
    """Acknowledge the open alarm, if there is one."""
    try:
        worker.command(Command("acknowledge", "soak")).result(30.0)
    except DataError:
        return


if __name__ == "__main__":
    main()
