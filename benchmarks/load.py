"""How much does one service carry? Machines a core, blocks a second, and people who listen; bounded, on loopback.

    python benchmarks/load.py MODEL RECORDING

1. Machines a core: one lane under the profile `robust`, more and more machines that each send a block of a tenth of a
   second ten times a second, by the clock, until signal piles up.
2. Blocks a second over HTTP: clients post binary blocks of a tenth of a second, one after the other, over open
   connections; the watch is stopped, so that taking blocks in is all that is measured.
3. Dashboards: browser tabs with a machine's page open while four machines are watched in real time; told is what share
   of a core the service takes, browser aside, and how long a request to the API takes meanwhile.
4. Programs that listen: clients hold the stream of events open while four machines are watched in real time; told is
   how long an event takes from the machine's lane to the last of them.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import sync_playwright

from cgsa.bench.tables import Table
from cgsa.data.readers import read_recording
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.nn.bundle import ModelBundle
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.limits import RequestLimits
from cgsa.service.server import create_server

BLOCK_SECONDS = 0.1
OPEN = RequestLimits(client_rate=1e6, client_burst=1_000_000, person_rate=1e6, person_burst=1_000_000)
"""Limits of single clients are not what is measured."""


class Feed:
    """Blocks of a recording for any machine, at any count."""

    def __init__(self, model: Path, recording: Path) -> None:
        self.model, about = model, ModelBundle.load(model).manifest
        self.rate, self.channels = about.sample_rate, about.channels
        samples, size = (
            read_recording(recording).select(about.channels).signal,
            round(BLOCK_SECONDS * about.sample_rate),
        )
        self._pieces = [np.ascontiguousarray(samples[:, n * size : (n + 1) * size]) for n in range(60)]

    def block(self, machine: str, number: int) -> Block:
        """Return a block of a machine."""
        piece = self._pieces[number % len(self._pieces)]
        return Block(machine, number, 1.7e9 + number * BLOCK_SECONDS, self.rate, self.channels, piece)

    def send(self, plant: Plant, machines: list[str], seconds: float) -> float:
        """Send to all machines in real time; return the most that waited, in seconds of signal."""
        begun, longest = time.monotonic(), 0.0
        for number in range(round(seconds / BLOCK_SECONDS)):
            rest = begun + number * BLOCK_SECONDS - time.monotonic()
            if rest > 0:
                time.sleep(rest)
            for machine in machines:
                plant.submit(self.block(machine, number))
            longest = max(longest, *(plant.worker(machine).waiting for machine in machines))
        return longest


def machines_a_core(feed: Feed, seconds: float) -> list[tuple[str, ...]]:
    """Return rows: machines, the most that waited, and the share of windows that were not learnt from."""
    rows: list[tuple[str, ...]] = []
    for count in (4, 8, 10, 12, 14, 16, 20):
        with tempfile.TemporaryDirectory() as room, Plant(Path(room), lanes=1) as plant:
            names = [f"machine-{number}" for number in range(count)]
            for name in names:
                plant.add(MachineConfig(name, feed.model))
            waited = feed.send(plant, names, seconds)
            counts = [plant.worker(name).watch.counts for name in names]
            shed = sum(one.shed for one in counts) / max(1, sum(one.windows for one in counts))
            rows.append((str(count), f"{waited:.1f}", f"{shed:.0%}"))
            print(rows[-1], flush=True)
            if waited > 2.0:
                break
    return rows


@contextmanager
def served(plant: Plant, *, runs_plant: bool, dashboard: bool = False) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a plant on a free port; give its address and a header that lets in."""
    authenticator = Authenticator(plant.store)
    app = create_app(plant, authenticator, limits=OPEN, runs_plant=runs_plant, dashboard=dashboard)
    server = create_server(app, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {authenticator.create_token('load', 'operator')}"}
    finally:
        server.should_exit = True
        thread.join()


def blocks_a_second(feed: Feed, clients: int, seconds: float) -> tuple[str, ...]:
    """Return clients, blocks a second, and how long one took."""
    with tempfile.TemporaryDirectory() as room:
        plant = Plant(Path(room), lanes=1)
        names = [f"machine-{number}" for number in range(clients)]
        for name in names:
            plant.add(MachineConfig(name, feed.model))
        took: list[float] = []
        with served(plant, runs_plant=False) as (url, header):
            limit = time.monotonic() + seconds

            def post(machine: str) -> None:
                with httpx.Client(headers={**header, "Content-Type": "application/octet-stream"}) as client:
                    number = 0
                    # A machine takes two minutes of signal without its watch.
                    while time.monotonic() < limit and number < 1100:
                        begun = time.perf_counter()
                        client.post(
                            f"{url}/api/blocks", content=feed.block(machine, number).to_bytes()
                        ).raise_for_status()
                        took.append(time.perf_counter() - begun)
                        number += 1

            threads = [threading.Thread(target=post, args=(name,)) for name in names]
            begun = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            lasted = time.monotonic() - begun
        plant.stop()
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return str(clients), f"{len(took) / lasted:,.0f}", f"{1e3 * p50:.1f}", f"{1e3 * p99:.1f}"


def listeners(feed: Feed, count: int, seconds: float) -> tuple[str, ...]:
    """Return listeners, events that each heard, and how late the last of them heard one."""
    told: dict[str, float] = {}
    heard: dict[str, list[float]] = {}
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as room:
        plant = Plant(Path(room), lanes=1)
        names = [f"machine-{number}" for number in range(4)]
        for name in names:
            plant.add(MachineConfig(name, feed.model))

        def note(machine: str, _position: int, events: tuple[object, ...]) -> None:
            for event in events:
                told[f"{machine}/{getattr(event, 'batch', None)}"] = time.perf_counter()

        plant.hear(note)
        with served(plant, runs_plant=True) as (url, header):
            ended = threading.Event()

            def listen() -> None:
                with (
                    httpx.Client(headers=header, timeout=30) as client,
                    client.stream("GET", f"{url}/api/events") as got,
                ):
                    for line in got.iter_lines():
                        if ended.is_set():
                            return
                        if line.startswith("data:") and '"batch"' in line:
                            now = time.perf_counter()
                            machine = line.split('"source": "')[-1].split('"')[0]
                            batch = line.split('"batch": ')[-1].split(",")[0]
                            with lock:
                                heard.setdefault(f"{machine}/{batch}", []).append(now)

            threads = [threading.Thread(target=listen, daemon=True) for _ in range(count)]
            for thread in threads:
                thread.start()
            time.sleep(1.0)
            feed.send(plant, names, seconds)
            time.sleep(1.0)
            ended.set()
    late = [max(times) - told[key] for key, times in heard.items() if key in told and len(times) == count]
    if not late:
        raise RuntimeError("no event reached all listeners")
    p50, p99 = np.quantile(late, [0.5, 0.99])
    return str(count), f"{len(late)} of {len(heard)}", f"{1e3 * p50:.0f}", f"{1e3 * p99:.0f}"


def dashboards(feed: Feed, tabs: int, seconds: float) -> tuple[str, ...]:
    """Return tabs, the share of a core that the service takes, and how long a request takes."""
    with tempfile.TemporaryDirectory() as room:
        plant = Plant(Path(room) / "plant", lanes=1)
        names = [f"machine-{number}" for number in range(4)]
        for name in names:
            plant.add(MachineConfig(name, feed.model))
        with served(plant, runs_plant=True, dashboard=True) as (url, header), sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                str(Path(room) / "browser"),
                executable_path="/usr/bin/chromium",
                args=["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
                extra_http_headers=header,
            )
            for tab in range(tabs):
                page = context.new_page()
                page.goto(f"{url}/machine/{names[tab % len(names)]}")
                page.get_by_text("Verdict and class probabilities").wait_for()
            took: list[float] = []
            ended = threading.Event()

            def ask() -> None:
                with httpx.Client(headers=header) as client:
                    while not ended.wait(0.2):
                        begun = time.perf_counter()
                        client.get(f"{url}/api/machines").raise_for_status()
                        took.append(time.perf_counter() - begun)

            asker = threading.Thread(target=ask)
            asker.start()
            before, begun = time.process_time(), time.monotonic()
            feed.send(plant, names, seconds)
            share = (time.process_time() - before) / (time.monotonic() - begun)
            ended.set()
            asker.join()
            context.close()
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return str(tabs), f"{share:.0%}", f"{1e3 * p50:.1f}", f"{1e3 * p99:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    feed = Feed(options.model, options.recording)
    rows = [blocks_a_second(feed, clients, options.seconds) for clients in (1, 4, 16)]
    print(Table("blocks", ("clients", "blocks/s", "p50, ms", "p99, ms"), tuple(rows)).markdown(), flush=True)
    rows = [listeners(feed, count, options.seconds) for count in (1, 20, 100)]
    heard = ("listeners", "events that all of them heard", "last one, p50, ms", "p99, ms")
    print(Table("listeners", heard, tuple(rows)).markdown(), flush=True)
    rows = [dashboards(feed, tabs, options.seconds) for tabs in (0, 5, 20)]
    seen = ("open pages", "share of a core", "request, p50, ms", "p99, ms")
    print(Table("dashboards", seen, tuple(rows)).markdown(), flush=True)
    carried = ("machines on one core", "most waiting, s", "not learnt from")
    print(Table("machines", carried, tuple(machines_a_core(feed, options.seconds))).markdown())


if __name__ == "__main__":
    main()
