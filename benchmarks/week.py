"""Does memory use grow? CGSA over a week of stream.

    python benchmarks/week.py --days 7 --device cuda
    python benchmarks/week.py --days 0.01

CGSA with the paper's network and batch learns from all windows. A minute of noise repeats. After a warm-up, and then
every hour of stream or tenth of the time, the script samples the memory of the process and of the GPU, open files and
threads. It prints the first sample, the maximum and the last sample.
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
"""Batches before the first sample: by then, graphs are captured and buffers allocated."""
FETCHED = 64
"""Batches whose results are copied to the host together."""


@dataclass(frozen=True)
class ResourceUse:
    """Resources in use."""

    process_mb: float
    gpu_mb: float
    files: int
    threads: int


def resources_in_use(device: str) -> ResourceUse:
    """Return the resources in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    on_gpu = torch.cuda.memory_allocated(device) if device.startswith("cuda") else 0
    return ResourceUse(
        round(pages * 4096 / 1e6, 1),
        round(on_gpu / 1e6, 1),
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
    )


def run(days: float, engine: str, device: str) -> tuple[list[ResourceUse], int, float]:
    """Return samples of the resources in use, the number of batches, and the duration in seconds."""
    setting = Setting()
    per_minute = int(MINUTE * RATE / setting.step / PAPER_BATCH)
    stream = Setting(batches=per_minute)
    method, windows = Cgsa(stream.bundle(), {"engine": engine, **EVERYTHING}, device=device), stream.windows()
    total = max(WARM_UP + 10, round(days * 24 * 60 * per_minute))
    every = max(1, min(60 * per_minute, (total - WARM_UP) // 10))
    probabilities: list[torch.Tensor] = []
    samples, begun = [], time.perf_counter()
    for number in range(total):
        begin = number % per_minute * PAPER_BATCH
        probabilities.append(method.step(windows.gather(slice(begin, begin + PAPER_BATCH))).probabilities)
        if len(probabilities) == FETCHED:
            if not bool(torch.isfinite(torch.cat(probabilities).cpu()).all()):
                raise RuntimeError(f"batch {number} or an earlier one is not finite")
            probabilities.clear()
        if number >= WARM_UP and (number - WARM_UP) % every == 0:
            samples.append(resources_in_use(device))
            print(f"\r{number / per_minute / 60:.2f} h of {total / per_minute / 60:.2f} h", end="", flush=True)
    samples.append(resources_in_use(device))
    print()
    return samples, total, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    samples, batches, seconds = run(options.days, options.engine, options.device)
    maximum = ResourceUse(*(max(column) for column in zip(*map(astuple, samples), strict=True)))
    rows = [
        (when, *map(str, astuple(one)))
        for when, one in (("first", samples[0]), ("maximum", maximum), ("last", samples[-1]))
    ]
    print(f"{batches} batches, {batches * PAPER_BATCH} windows, {len(samples)} samples, {seconds:.0f} s\n")
    print(Table("week", ("sample", "process, MB", "GPU, MB", "open files", "threads"), tuple(rows)).markdown())


if __name__ == "__main__":
    main()
