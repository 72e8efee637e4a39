"""How many machines does one service carry? Blocks of a tenth of a second over HTTP, in real time, on two cores.

    python -m benchmarks.machines MODEL RECORDING --machines 16 32 --rounds 2
    python -m benchmarks.machines MODEL RECORDING --machines 8 --against OTHER --rounds 6

A service in a process of its own monitors so many machines, with one worker thread per core. Every machine has a
sender with a connection of its own, and the senders share another process. Each round starts a service, leaves it
alone for a while, and measures.

With ``--against``, the rounds alternate between this version and another one, whose repository is in the folder OTHER
(``git worktree add OTHER REVISION``), so that other work on the computer meets both alike.

Processor time is that of all processes of the service, for receipt of blocks, journal, diagnosis, states and store, per
second of signal that was diagnosed. It says more than the longest queue on a computer that does other work, too. A
queue is in seconds of signal. Latency is the time from the end of a batch, within a block that is sent up to a tenth of
a second later, to its diagnosis. Every round is kept in a file of its own in ``--output``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing as mp
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import IO, Any

import numpy as np
from benchmarks.result_files import Result, read_folder, write_result

from cgsa.bench.tables import Table
from cgsa.data.readers import read_recording
from cgsa.events import Diagnosis, Event
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.nn.bundle import ModelBundle
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.limits import RequestLimits
from cgsa.service.server import create_server

ROOT = Path(__file__).parents[1]
BLOCK_SECONDS = 0.1
PIECES = 300
"""Blocks of the recording that are sent, one after the other and again."""
CORES = 2
MANY = 8
"""Machines from which on a service computes diagnoses in processes of their own."""
LIMITS = RequestLimits(block_rate=1e6, block_burst=1e6)
"""All senders share one token, and it is not its rate that is measured."""


def serve(folder: Path, model: Path, machines: int) -> None:
    """Run the service until the input ends, and answer every line of it with what has happened since the last one."""
    verdicts: list[tuple[float, float]] = []

    def note(_machine: str, _position: int, events: tuple[Event, ...]) -> None:
        now = time.time()
        verdicts.extend((event.end, now) for event in events if isinstance(event, Diagnosis))

    # As `cgsa serve` does; the version to compare with may know no processes.
    many: dict[str, Any] = (
        {"processes": True} if machines >= MANY and "processes" in signature(Plant).parameters else {}
    )
    plant = Plant(folder, threads=CORES, **many)
    workers = [plant.add(MachineConfig(machine_name(number), model)) for number in range(machines)]
    plant.subscribe(note)
    authenticator = Authenticator(plant.store)
    server = create_server(create_app(plant, authenticator, limits=LIMITS, dashboard=False), port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    longest, manifest = [0.0], workers[0].watch.bundle.manifest
    hop = manifest.window.step / manifest.sample_rate

    def watch_queues() -> None:
        while thread.is_alive():
            longest[0] = max(longest[0], *(worker.waiting for worker in workers))
            time.sleep(0.1)

    threading.Thread(target=watch_queues, daemon=True).start()
    about = {"port": server.servers[0].sockets[0].getsockname()[1]}
    print(json.dumps(about | {"token": authenticator.create_token("gateway", "sender")}), flush=True)
    for _ in sys.stdin:
        used, counts = processor_seconds(), [worker.watch.counts for worker in workers]
        totals = {name: sum(getattr(one, name) for one in counts) for name in ("windows", "shed")}
        totals["signal"] = totals["windows"] * hop
        found = {**used, "queue": longest[0], "verdicts": verdicts[:], **totals}
        longest[0] = 0.0
        print(json.dumps(found), flush=True)
    server.should_exit = True
    thread.join()


def processor_seconds() -> dict[str, float]:
    """Return the processor time of this process and of those that it has started."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = {"user": 0.0, "system": 0.0}
    for process in (os.getpid(), *(child.pid for child in mp.active_children())):
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        found["user"] += int(fields[11]) / ticks
        found["system"] += int(fields[12]) / ticks
    return found


def machine_name(number: int) -> str:
    """Return the name of a machine."""
    return f"machine-{number}"


class Senders:
    """Send the blocks of all machines in real time, each over a connection of its own, until they are stopped."""

    def __init__(self, model: Path, recording: Path, machines: int, port: int, token: str) -> None:
        about = ModelBundle.load(model).manifest
        signal, size = read_recording(recording).select(about.channels).signal, round(BLOCK_SECONDS * about.sample_rate)
        self._rate, self._channels = about.sample_rate, about.channels
        count = min(PIECES, signal.shape[1] // size)
        self._pieces = [np.ascontiguousarray(signal[:, n * size : (n + 1) * size]) for n in range(count)]
        self._machines, self._port = machines, port
        self._head = (
            f"POST /api/blocks HTTP/1.1\r\nHost: plant\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/octet-stream\r\nContent-Length: "
        ).encode()
        self.begun = time.time() + 0.2
        self.answers: defaultdict[int, int] = defaultdict(int)
        self._ended = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    def stop(self) -> None:
        """Stop sending."""
        self._ended = True
        self._thread.join()

    def begin_of(self, machine: int) -> float:
        """Return the time of the first sample of a machine: their blocks do not end at the same time."""
        return self.begun + BLOCK_SECONDS * machine / self._machines

    async def _run(self) -> None:
        await asyncio.gather(*(self._send(machine) for machine in range(self._machines)))

    async def _send(self, machine: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        begun, number = self.begin_of(machine), 0
        while not self._ended:
            await asyncio.sleep(max(0.0, begun + (number + 1) * BLOCK_SECONDS - time.time()))
            piece, sent = self._pieces[number % len(self._pieces)], begun + number * BLOCK_SECONDS
            body = Block(machine_name(machine), number, sent, self._rate, self._channels, piece).to_bytes()
            writer.write(self._head + str(len(body)).encode() + b"\r\n\r\n" + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            status = int(head.split()[1])
            self.answers[status] += 1
            number += status == 202
        writer.close()


@contextmanager
def service(source: Path, model: Path, machines: int) -> Iterator[subprocess.Popen[str]]:
    """Run the service of a version in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--serve", folder, str(model), "--machines", str(machines)]
        environment = {**os.environ, "PYTHONPATH": f"{source / 'src'}{os.pathsep}{ROOT}"}
        with subprocess.Popen(  # noqa: S603 - the command is ours
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=source
        ) as process:
            try:
                yield process
            finally:
                _pipe(process.stdin).close()
                process.wait(60)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("the service has no pipe")
    return pipe


def _ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    stdin = _pipe(process.stdin)
    stdin.write("\n")
    stdin.flush()
    found: dict[str, Any] = json.loads(_pipe(process.stdout).readline())
    return found


def measure(source: Path, options: argparse.Namespace, machines: int) -> dict[str, Any]:
    """Return what a version needs for so many machines."""
    with service(source, options.model, machines) as process:
        about = json.loads(_pipe(process.stdout).readline())
        senders = Senders(options.model, options.recording, machines, about["port"], about["token"])
        time.sleep(options.warm_up)
        before, first = _ask(process), time.time()
        time.sleep(options.seconds)
        after, last = _ask(process), time.time()
        senders.stop()
    late = [now - end for end, now in after["verdicts"] if first <= now < last]
    return {
        "machines": machines,
        "seconds": last - first,
        **{name: after[name] - before[name] for name in ("user", "system", "windows", "signal", "shed")},
        "queue": after["queue"],
        "p50": float(np.quantile(late, 0.5)),
        "p99": float(np.quantile(late, 0.99)),
        "refused": sum(count for status, count in senders.answers.items() if status != 202),
    }


def table_of(results: Sequence[Result]) -> Table:
    """Return the table of all rounds, one row per version, number of machines and length."""
    grouped: defaultdict[tuple[str, int, int, str], list[Result]] = defaultdict(list)
    for row in results:
        grouped[row["model"], row["machines"], round(row["seconds"]), row["version"]].append(row)
    body = []
    for (model, machines, seconds, version), rows in sorted(grouped.items(), reverse=True):
        cost = [1e3 * (row["user"] + row["system"]) / row["signal"] for row in rows]
        shed = sum(row["shed"] for row in rows) / max(1, sum(row["windows"] for row in rows))
        body.append(
            (
                model,
                str(machines),
                version,
                f"{len(rows)} x {seconds} s",
                f"{np.median(cost):.1f} ({min(cost):.1f} to {max(cost):.1f})",
                f"{1e3 * CORES / np.median(cost):.0f}",
                f"{max(row['queue'] for row in rows):.1f}",
                f"{shed:.0%}",
                str(sum(row["refused"] for row in rows)),
                f"{1e3 * np.median([row['p50'] for row in rows]):.0f}",
                f"{1e3 * np.median([row['p99'] for row in rows]):.0f}",
            )
        )
    head = (
        "model",
        "machines",
        "version",
        "rounds",
        "processor ms per s of signal",
        "two cores, by this time",
        "longest queue, s",
        "not used for adaptation",
        "blocks refused",
        "p50, ms",
        "p99, ms",
    )
    return Table("machines", head, tuple(body))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="of any profile")
    parser.add_argument("recording", type=Path, help="of a machine like those of the model")
    parser.add_argument("--machines", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--seconds", type=float, default=15.0, help="measured in each round")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds before that")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--against", type=Path, help="repository of another version")
    parser.add_argument("--output", type=Path, default=Path("runs/machines"))
    options = parser.parse_args()
    versions = {"this": ROOT} | ({} if options.against is None else {"other": options.against.resolve()})
    options.model, options.recording = options.model.resolve(), options.recording.resolve()
    for number in range(options.rounds):
        for machines in options.machines:
            # Every other round begins with the other version, so that neither always comes first.
            for version in sorted(versions, reverse=bool(number % 2)):
                file = options.output / f"{options.model.name}-{machines}-{version}-{number}.json"
                if not file.exists():
                    found = {
                        "model": options.model.name,
                        "version": version,
                        **measure(versions[version], options, machines),
                    }
                    write_result(file, found)
                    print(found, flush=True)
    print(table_of(read_folder(options.output)).markdown())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[5]))
    else:
        main()
