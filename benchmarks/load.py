"""How much load does one service sustain? Machines per core, blocks per second, clients; on the loopback interface.

    python benchmarks/load.py MODEL RECORDING

1. Machines per core: one worker thread under the profile `robust`, and a growing number of machines that each send a
   block of a tenth of a second in real time, until signal accumulates.
2. Blocks per second over HTTP: clients post binary blocks of a tenth of a second, one after the other, over open
   connections. The watch is stopped, so that only the intake is measured.
3. Dashboards: browser tabs show the page of a machine while the service monitors four machines in real time. The script
   prints the share of a core that the service uses, without the browser, and the duration of a request to the API.
4. Event clients: clients keep the event stream open while the service monitors four machines in real time. The script
   prints the delay of an event from the worker thread to the last client.
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
UNLIMITED = 1_000_000.0
OPEN = RequestLimits(
    address_rate=UNLIMITED,
    address_burst=UNLIMITED,
    token_rate=UNLIMITED,
    token_burst=UNLIMITED,
    block_rate=UNLIMITED,
    block_burst=UNLIMITED,
    token_streams=100,
    read_share=UNLIMITED,
)
"""No limit per token and address, so that the service itself is measured."""


class Feed:
    """Blocks of a recording for any number of machines."""

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
        """Send to all machines in real time; return the longest queue in seconds of signal."""
        begun, longest = time.monotonic(), 0.0
        for number in range(round(seconds / BLOCK_SECONDS)):
            rest = begun + number * BLOCK_SECONDS - time.monotonic()
            if rest > 0:
                time.sleep(rest)
            for machine in machines:
                plant.submit(self.block(machine, number))
            longest = max(longest, *(plant.worker(machine).waiting for machine in machines))
        return longest


def machines_per_core(feed: Feed, seconds: float) -> list[tuple[str, ...]]:
    """Return rows: machines, the longest queue, and the share of windows not used for adaptation."""
    rows: list[tuple[str, ...]] = []
    for count in (4, 8, 10, 12, 14, 16, 20):
        with tempfile.TemporaryDirectory() as folder, Plant(Path(folder), threads=1) as plant:
            names = [f"machine-{number}" for number in range(count)]
            for name in names:
                plant.add(MachineConfig(name, feed.model))
            queued = feed.send(plant, names, seconds)
            counts = [plant.worker(name).watch.counts for name in names]
            shed = sum(one.shed for one in counts) / max(1, sum(one.windows for one in counts))
            rows.append((str(count), f"{queued:.1f}", f"{shed:.0%}"))
            print(rows[-1], flush=True)
            if queued > 2.0:
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


def blocks_per_second(feed: Feed, clients: int, seconds: float) -> tuple[str, ...]:
    """Return clients, blocks per second, and the duration of a request."""
    with tempfile.TemporaryDirectory() as folder:
        plant = Plant(Path(folder), threads=1)
        names = [f"machine-{number}" for number in range(clients)]
        for name in names:
            plant.add(MachineConfig(name, feed.model))
        took: list[float] = []
        with served(plant, runs_plant=False) as (url, header):
            limit = time.monotonic() + seconds

            def post(machine: str) -> None:
                with httpx.Client(headers={**header, "Content-Type": "application/octet-stream"}) as client:
                    number = 0
                    # Without its watch, a machine accepts two minutes of signal.
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


def event_clients(feed: Feed, count: int, seconds: float) -> tuple[str, ...]:
    """Return clients, events that all of them received, and the delay of the last one to receive an event."""
    reported: dict[str, float] = {}
    received: dict[str, list[float]] = {}
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as folder:
        plant = Plant(Path(folder), threads=1)
        names = [f"machine-{number}" for number in range(4)]
        for name in names:
            plant.add(MachineConfig(name, feed.model))

        def note(machine: str, _position: int, events: tuple[object, ...]) -> None:
            for event in events:
                reported[f"{machine}/{getattr(event, 'batch', None)}"] = time.perf_counter()

        plant.subscribe(note)
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
                                received.setdefault(f"{machine}/{batch}", []).append(now)

            threads = [threading.Thread(target=listen, daemon=True) for _ in range(count)]
            for thread in threads:
                thread.start()
            time.sleep(1.0)
            feed.send(plant, names, seconds)
            time.sleep(1.0)
            ended.set()
    late = [max(times) - reported[key] for key, times in received.items() if key in reported and len(times) == count]
    if not late:
        raise RuntimeError("no event reached all clients")
    p50, p99 = np.quantile(late, [0.5, 0.99])
    return str(count), f"{len(late)} of {len(received)}", f"{1e3 * p50:.0f}", f"{1e3 * p99:.0f}"


def dashboards(feed: Feed, tabs: int, seconds: float) -> tuple[str, ...]:
    """Return tabs, the share of a core that the service uses, and the duration of a request."""
    with tempfile.TemporaryDirectory() as folder:
        plant = Plant(Path(folder) / "plant", threads=1)
        names = [f"machine-{number}" for number in range(4)]
        for name in names:
            plant.add(MachineConfig(name, feed.model))
        with served(plant, runs_plant=True, dashboard=True) as (url, header), sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                str(Path(folder) / "browser"),
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

            def request() -> None:
                with httpx.Client(headers=header) as client:
                    while not ended.wait(0.2):
                        begun = time.perf_counter()
                        client.get(f"{url}/api/machines").raise_for_status()
                        took.append(time.perf_counter() - begun)

            requester = threading.Thread(target=request)
            requester.start()
            before, begun = time.process_time(), time.monotonic()
            feed.send(plant, names, seconds)
            share = (time.process_time() - before) / (time.monotonic() - begun)
            ended.set()
            requester.join()
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
    rows = [blocks_per_second(feed, clients, options.seconds) for clients in (1, 4, 16)]
    print(Table("blocks", ("clients", "blocks/s", "p50, ms", "p99, ms"), tuple(rows)).markdown(), flush=True)
    rows = [event_clients(feed, count, options.seconds) for count in (1, 20, 100)]
    columns = ("clients", "events received by all", "last one, p50, ms", "p99, ms")
    print(Table("event-clients", columns, tuple(rows)).markdown(), flush=True)
    rows = [dashboards(feed, tabs, options.seconds) for tabs in (0, 5, 20)]
    columns = ("open pages", "share of a core", "request, p50, ms", "p99, ms")
    print(Table("dashboards", columns, tuple(rows)).markdown(), flush=True)
    queues = ("machines on one core", "longest queue, s", "not used for adaptation")
    print(Table("machines", queues, tuple(machines_per_core(feed, options.seconds))).markdown())


if __name__ == "__main__":
    main()
