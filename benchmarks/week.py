"""Does watching a machine for a week take ever more memory? One stream over days of stream time.

    python benchmarks/week.py --days 7 --device cuda
    python benchmarks/week.py --days 0.01

The paper's network and batch, all windows learnt from. A minute of noise goes round and round; after warming up, and
then every simulated hour or tenth of the time, memory of the process, of the GPU, open files and threads are looked at.
Told are the first look, the last, and the most in between.
"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from cgsa.bench.speed.measure import EVERYTHING, PAPER_BATCH, RATE, Setting
from cgsa.bench.tables import Table
from cgsa.online.cgsa import Cgsa

MINUTE = 60.0
WARM_UP = 50
"""Batches before the first look: by then graphs are recorded and buffers are in place."""
FETCHED = 64
"""Batches whose verdicts come to the host together."""


@dataclass(frozen=True)
class Look:
    """What is in use."""

    process_mb: float
    gpu_mb: float
    files: int
    threads: int


def look(device: str) -> Look:
    """Return what is in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    on_gpu = torch.cuda.memory_allocated(device) if device.startswith("cuda") else 0
    return Look(
        round(pages * 4096 / 1e6, 1),
        round(on_gpu / 1e6, 1),
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
    )


def watch(days: float, engine: str, device: str) -> tuple[list[Look], int, float]:
    """Return what was in use along the way, how many batches there were, and how many seconds it took."""
    setting = Setting()
    per_minute = int(MINUTE * RATE / setting.step / PAPER_BATCH)
    stream = Setting(batches=per_minute)
    method, windows = Cgsa(stream.bundle(), {"engine": engine, **EVERYTHING}, device=device), stream.windows()
    total = max(WARM_UP + 10, round(days * 24 * 60 * per_minute))
    every = max(1, min(60 * per_minute, (total - WARM_UP) // 10))
    said: list[torch.Tensor] = []
    looks, begun = [], time.perf_counter()
    for number in range(total):
        begin = number % per_minute * PAPER_BATCH
        said.append(method.step(windows.gather(slice(begin, begin + PAPER_BATCH))).probabilities)
        if len(said) == FETCHED:
            if not bool(torch.isfinite(torch.cat(said).cpu()).all()):
                raise RuntimeError(f"batch {number} or one before it: not finite")
            said.clear()
        if number >= WARM_UP and (number - WARM_UP) % every == 0:
            looks.append(look(device))
            print(f"\r{number / per_minute / 60:.2f} h of {total / per_minute / 60:.2f} h", end="", flush=True)
    looks.append(look(device))
    print()
    return looks, total, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    looks, batches, seconds = watch(options.days, options.engine, options.device)
    most = Look(*(max(column) for column in zip(*map(astuple, looks), strict=True)))
    rows = [(when, *map(str, astuple(one))) for when, one in (("first", looks[0]), ("most", most), ("last", looks[-1]))]
    print(f"{batches} batches, {batches * PAPER_BATCH} windows, {len(looks)} looks, {seconds:.0f} s\n")
    print(Table("week", ("look", "process, MB", "GPU, MB", "open files", "threads"), tuple(rows)).markdown())


if __name__ == "__main__":
    main()
