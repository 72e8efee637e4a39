"""What happens under overload? A stream at up to twice the rate that a watch can sustain.

    python benchmarks/overload.py --seconds 60

One machine, one worker thread, CGSA with the paper's network and windows, learning from all windows. The script first
submits blocks as fast as the watch works, which gives the sustainable rate. It then submits them at half this rate, at
this rate and at twice this rate. It prints the windows received and diagnosed, the share not used for adaptation, the
longest queue, the time from the submission of a block to the diagnosis of the batch that it completes, and the memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

from cgsa.bench.speed.measure import Setting
from cgsa.bench.tables import Table
from cgsa.events import Diagnosis, Event
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.worker import Worker

MACHINE = "rig"
BLOCK_SECONDS = 0.1
EVERYTHING = {"method": {"cgsa": {"tau": 1e9, "min_confidence": 0.0}}}


def resident() -> float:
    """Return the memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


class Sender:
    """Submits an endless stream of noise, and remembers the time of each submission."""

    def __init__(self, plant: Plant, channels: tuple[str, ...], rate: float) -> None:
        self._plant, self._channels, self._rate = plant, channels, rate
        rng = np.random.default_rng(0)
        size = round(BLOCK_SECONDS * rate)
        self._noise = rng.standard_normal((16, len(channels), size)).astype(np.float32)
        self._numbers = count()
        self.sent: deque[tuple[float, float]] = deque(maxlen=100_000)
        """Stream time at the end of a block, and the time of its submission."""
        self.samples = 0

    def send(self) -> None:
        """Submit the next block."""
        number = next(self._numbers)
        begun = 1e9 + number * BLOCK_SECONDS
        self.sent.append((begun + BLOCK_SECONDS, time.perf_counter()))
        noise = self._noise[number % 16]
        self._plant.submit(Block(MACHINE, number, begun, self._rate, self._channels, noise))
        self.samples += noise.shape[1]


class LatencyMeter:
    """Receives diagnoses, and measures the latency of each from the block that completed its batch."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.latencies: list[float] = []
        self.windows = 0

    def __call__(self, _machine: str, _position: int, events: tuple[Event, ...]) -> None:
        """Measure the latency of every diagnosis."""
        now = time.perf_counter()
        for event in events:
            if isinstance(event, Diagnosis):
                self.windows += event.windows
                sent = self._sender.sent
                while len(sent) > 1 and sent[0][0] < event.end - 1e-6:
                    sent.popleft()
                self.latencies.append(now - sent[0][1])


def sustainable(sender: Sender, worker: Worker, seconds: float) -> float:
    """Return how many seconds of stream per second the watch can process while it learns."""
    begun, first = time.monotonic(), worker.watch.counts.windows
    while time.monotonic() - begun < seconds:
        sender.send()
        while worker.waiting > 3 * BLOCK_SECONDS:
            time.sleep(0.0005)
    done = worker.watch.counts.windows - first
    manifest = worker.watch.bundle.manifest
    return done * manifest.window.step / manifest.sample_rate / (time.monotonic() - begun)


def paced(rate: float, seconds: float) -> Iterator[None]:
    """Yield at the time of each block, at a multiple of real time."""
    begun = time.monotonic()
    for number in range(round(seconds * rate / BLOCK_SECONDS)):
        rest = begun + number * BLOCK_SECONDS / rate - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = Setting().bundle()
        bundle.save(Path(folder) / "model")
        about = bundle.manifest
        rows = []
        with Plant(Path(folder) / "plant", threads=1) as plant:
            worker = plant.add(MachineConfig(MACHINE, Path(folder) / "model", profile="paper", settings=EVERYTHING))
            sender = Sender(plant, about.channels, about.sample_rate)
            meter = LatencyMeter(sender)
            plant.subscribe(meter)
            sustainable(sender, worker, 5.0)
            rate = sustainable(sender, worker, 15.0)
            for times in (0.5, 1.0, 2.0):
                plant.wait_until_idle(600.0)
                before, memory, samples = worker.watch.counts, resident(), sender.samples
                meter.latencies.clear()
                longest, peak = 0.0, memory
                for _ in paced(times * rate, options.seconds):
                    sender.send()
                    longest, peak = max(longest, worker.waiting), max(peak, resident())
                plant.wait_until_idle(600.0)
                after = worker.watch.counts
                received = (sender.samples - samples) / about.window.step
                p50, p99 = np.quantile(meter.latencies, [0.5, 0.99])
                rows.append(
                    (
                        f"{times:g}",
                        f"{received:,.0f}",
                        f"{after.windows - before.windows:,}",
                        f"{(after.shed - before.shed) / max(1, after.windows - before.windows):.0%}",
                        str(worker.status().refused),
                        f"{longest:.1f}",
                        f"{1e3 * p50:.0f}",
                        f"{1e3 * p99:.0f}",
                        f"{memory:.0f}, {peak:.0f}",
                    )
                )
    columns = (
        "x sustainable",
        "windows received",
        "diagnosed",
        "not used for adaptation",
        "blocks refused",
        "longest queue, s",
        "p50, ms",
        "p99, ms",
        "memory before and peak, MB",
    )
    print(f"sustainable: {rate:.2f} x real time of one machine\n")
    print(Table("overload", columns, tuple(rows)).markdown())


if __name__ == "__main__":
    main()
