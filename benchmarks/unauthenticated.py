"""What does a client without a token cost? 1,000 connections and 500 requests per second on the loopback interface.

    python -m benchmarks.unauthenticated MODEL RECORDING --rounds 2

A service in a process of its own monitors four machines, which send blocks of a tenth of a second in real time, with a
valid token and from the same address as the attacker. Each round has three phases of the same length:

- quiet: nothing else happens;
- bystander: the attacker connects to another process, which answers and does nothing, so that this phase shows what the
  attacker costs by using the processor, which it does at the lowest priority;
- attack: the attacker connects to the service.

A quarter of the attacker's connections send nothing, a quarter sends headers byte by byte, and the others send requests
without a token, with wrong tokens, to the login and to unknown paths. Connections that are closed are opened again. The
script prints the latency of verdicts, from the time at which a block was due to the diagnosis of the batch that it
completes, and of `/health`, which is asked five times per second over new connections; and the share of a core that the
service uses, which depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing as mp
import os
import resource
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import httpx
import numpy as np
from benchmarks.load import BLOCK_SECONDS, Feed

from cgsa.bench.tables import Table
from cgsa.events import Diagnosis, Event
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.server import create_server

MACHINES = 4
CONNECTIONS = 1000
REQUESTS = 500
"""Per second, over all connections that send requests."""
WARM_UP = 3.0
"""Seconds at the begin of a phase that are not counted."""
WRONG = b"Authorization: Bearer cgsa.guess." + b"A" * 43 + b"\r\n"
FORM = b"token=cgsa.guess." + b"A" * 43
LOGIN = (
    b"POST /login HTTP/1.1\r\nHost: pump\r\nX-CGSA: 1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: " + str(len(FORM)).encode() + b"\r\n\r\n" + FORM
)
ATTEMPTS = (
    b"GET /api/machines HTTP/1.1\r\nHost: pump\r\n\r\n",
    b"GET /api/audit HTTP/1.1\r\nHost: pump\r\n" + WRONG + b"\r\n",
    LOGIN,
    b"GET /nothing HTTP/1.1\r\nHost: pump\r\n\r\n",
)
ANSWER = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


def serve(folder: Path, model: Path, pipe: Connection) -> None:
    """Run the service until it is told to stop; send its port and a token, and in the end the times of all verdicts."""
    verdicts: list[tuple[float, float]] = []

    def note(_machine: str, _position: int, events: tuple[Event, ...]) -> None:
        now = time.time()
        verdicts.extend((event.end, now) for event in events if isinstance(event, Diagnosis))

    plant = Plant(folder / "plant", threads=1)
    for number in range(MACHINES):
        plant.add(MachineConfig(f"machine-{number}", model))
    plant.subscribe(note)
    authenticator = Authenticator(plant.store)
    server = create_server(create_app(plant, authenticator, dashboard=False), port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    pipe.send((port, authenticator.create_token("gateway", "sender"), os.getpid()))
    pipe.recv()
    server.should_exit = True
    thread.join()
    pipe.send(verdicts)


def stand_by(pipe: Connection) -> None:
    """Answer whatever comes, as cheaply as possible, until the process is ended."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    _raise_file_limit()
    asyncio.run(run())


def attack(port: int, seconds: float, pipe: Connection) -> None:
    """Open connections and send requests for a time; send the number of requests and of connections."""

    async def run() -> Counter[str]:
        counts: Counter[str] = Counter()
        end = time.monotonic() + seconds
        senders = CONNECTIONS // 2

        async def hold(number: int) -> None:
            while time.monotonic() < end:
                with suppress(OSError, asyncio.TimeoutError):
                    async with asyncio.timeout(max(0.0, end - time.monotonic())):
                        await use(number)
                # Not more than two connections per second in place of each that is closed.
                await asyncio.sleep(0.5)

        async def use(number: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            counts["connections"] += 1
            try:
                match number % 4:
                    case 0:
                        await reader.read()
                    case 1:
                        writer.write(b"GET /health HTTP/1.1\r\nHost: pump\r\n")
                        while not reader.at_eof():
                            writer.write(b"X")
                            with suppress(TimeoutError):
                                async with asyncio.timeout(1.0):
                                    await reader.read(100)
                    case _:
                        while not reader.at_eof():
                            writer.write(ATTEMPTS[int(counts["requests"]) % len(ATTEMPTS)])
                            counts["requests"] += 1
                            await reader.read(65_536)
                            await asyncio.sleep(senders / REQUESTS)
            finally:
                writer.close()

        await asyncio.gather(*(hold(number) for number in range(CONNECTIONS)))
        return counts

    _raise_file_limit()
    # As if it ran on another computer: it takes the processor only when nobody else wants it.
    os.nice(19)
    pipe.send(asyncio.run(run()))


class Sender:
    """Sends the blocks of all machines in real time, and asks for the health of the service."""

    def __init__(self, url: str, token: str, feed: Feed) -> None:
        self._url, self._feed = url, feed
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        self.begun = math.ceil(time.time() / BLOCK_SECONDS) * BLOCK_SECONDS
        self.health: list[tuple[float, float]] = []
        """When a request for the health was sent, and how long it took; infinity if it failed."""
        self.refused: Counter[int] = Counter()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._ask)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        with httpx.Client(headers=self._headers, timeout=20) as client:
            number = 0
            while not self._ended.is_set():
                due = self.begun + (number + 1) * BLOCK_SECONDS
                time.sleep(max(0.0, due - time.time()))
                for machine in range(MACHINES):
                    self._post(client, f"machine-{machine}", number)
                number += 1

    def _post(self, client: httpx.Client, machine: str, number: int) -> None:
        old = self._feed.block(machine, number)
        now = self.begun + number * BLOCK_SECONDS
        block = Block(machine, number, now, old.sample_rate, old.channels, old.samples)
        for _ in range(20):
            try:
                status = client.post(f"{self._url}/api/blocks", content=block.to_bytes()).status_code
            except httpx.TransportError:
                status = 0
            if status == 202:
                return
            self.refused[status] += 1
            time.sleep(0.05)

    def _ask(self) -> None:
        while not self._ended.wait(0.2):
            begun, wall = time.perf_counter(), time.time()
            try:
                ok = httpx.get(f"{self._url}/health", timeout=10).status_code == 200
            except httpx.TransportError:
                ok = False
            self.health.append((wall, time.perf_counter() - begun if ok else math.inf))


def latencies(verdicts: list[tuple[float, float]], begun: float, first: float, last: float) -> list[float]:
    """Return the latencies of the verdicts between two times."""
    found = []
    for end, now in verdicts:
        # The batch ends within a block, which is due at its end.
        due = begun + math.ceil((end - begun) / BLOCK_SECONDS - 1e-6) * BLOCK_SECONDS
        if first <= due < last:
            found.append(now - due)
    return found


def processor_seconds(process: int) -> float:
    """Return the seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(target: object, *words: object) -> Iterator[Connection]:
    """Run a function in a process of its own; give the pipe to it."""
    here, there = mp.Pipe()
    process = mp.get_context("spawn").Process(target=target, args=(*words, there), daemon=True)  # type: ignore[arg-type] # a function
    process.start()
    try:
        yield here
    finally:
        process.terminate()
        process.join()


def measure(feed: Feed, seconds: float, rounds: int) -> Iterator[Table]:
    """Run all phases; yield the tables of verdicts and of what the attacker did."""
    phases: list[tuple[str, float, float]] = []
    used: defaultdict[str, float] = defaultdict(float)
    """Seconds of the processor that the service used."""
    done: list[tuple[str, ...]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running(serve, Path(folder), feed.model) as service,
        running(stand_by) as other,
    ):
        port, token, process = service.recv()
        elsewhere = other.recv()
        with Sender(f"http://127.0.0.1:{port}", token, feed) as sender:
            time.sleep(WARM_UP)
            for _ in range(rounds):
                for phase, target in (("quiet", None), ("bystander", elsewhere), ("attack", port)):
                    begun, before = time.time(), processor_seconds(process)
                    if target is None:
                        time.sleep(seconds)
                    else:
                        with running(attack, target, seconds) as attacker:
                            counts = attacker.recv()
                        rates = (f"{counts[name] / seconds:.0f}" for name in ("connections", "requests"))
                        done.append((phase, *rates))
                    used[phase] += processor_seconds(process) - before
                    phases.append((phase, begun + WARM_UP, begun + seconds))
            time.sleep(2.0)
        service.send("stop")
        verdicts = service.recv()
    rows = []
    for phase in ("quiet", "bystander", "attack"):
        times = [(first, last) for name, first, last in phases if name == phase]
        late = [one for first, last in times for one in latencies(verdicts, sender.begun, first, last)]
        asked = [took for first, last in times for wall, took in sender.health if first <= wall < last]
        p50, p99 = (f"{1e3 * one:.0f}" for one in np.quantile(late, [0.5, 0.99]))
        failed = sum(map(math.isinf, asked))
        worst = max((one for one in asked if math.isfinite(one)), default=math.nan)
        answered = f"{len(asked) - failed} of {len(asked)}"
        core = f"{used[phase] / (rounds * seconds):.0%}"
        rows.append((phase, str(len(late)), p50, p99, answered, f"{1e3 * worst:.0f}", core))
    columns = ("phase", "verdicts", "p50, ms", "p99, ms", "/health answered", "slowest, ms", "share of a core")
    yield Table("verdicts", columns, tuple(rows))
    yield Table("attacker", ("phase", "connections opened/s", "requests/s"), tuple(done))
    refused = tuple((str(status or "no answer"), str(count)) for status, count in sorted(sender.refused.items()))
    yield Table("sender", ("answer to a block", "times"), refused)


def _raise_file_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a phase, at most 120")
    parser.add_argument("--rounds", type=int, default=2, help="at most 20")
    options = parser.parse_args()
    feed = Feed(options.model, options.recording)
    for table in measure(feed, min(options.seconds, 120.0), min(options.rounds, 20)):
        print(table.markdown(), flush=True)


if __name__ == "__main__":
    main()
