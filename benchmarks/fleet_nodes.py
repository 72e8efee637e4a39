"""How long do machines pause when a node comes or goes? A fleet on two nodes of Ray, both on this computer.

    python -m benchmarks.fleet_nodes --machines 8 --seconds 60

Machines send a tenth of a second at a time, as fast as they measure. A fleet of two shards runs on one node; then

- ``add``: a second node joins, and the fleet gets four shards;
- ``leave``: it gets three shards, so that the fourth gives its machines to others;
- ``loss``: the second node is killed with all of its processes. Nothing can be restarted elsewhere, so that the
  machines of its shard go to the others after ``lost_seconds`` (5 here).

The pause of a machine is the longest time during which nothing more of it is in the store. In the end all diagnoses,
cases, ledger rows and states must be those of a single process over the same log.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch
from benchmarks import kills
from benchmarks.fleet.streams import machine_configs, publish, rounds
from benchmarks.fleet_kills import compare
from benchmarks.result_files import Result, write_result

from cgsa.bench.tables import Table
from cgsa.errors import UnavailableError
from cgsa.fleet.config import FleetConfig, RayConfig
from cgsa.fleet.controller import ControllerConfig
from cgsa.fleet.local_ray import TOKEN, use_local_ray
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.shard import ShardConfig

if TYPE_CHECKING:
    from benchmarks.fleet.nodes import TwoNodes

LOST_SECONDS = 5.0
START_SECONDS = 300.0
ROUND = 0.1
"""Seconds of signal that all machines publish at a time."""
EVENTS = ("none", "add", "leave", "loss")


@dataclass(frozen=True)
class NodesReport:
    """Pauses and the outcome of the comparison."""

    machines: int
    moved: dict[str, int]
    """Machines that changed their shard, by event."""
    pause_median: dict[str, float]
    """Seconds, of machines that moved; with event ``none``, of all machines while nothing happens."""
    pause_longest: dict[str, float]
    stayed_longest: dict[str, float]
    """The longest pause of the machines that stayed."""
    blocks: int
    diagnoses: int
    ledger_rows: int
    differences: list[str]


class Progress(threading.Thread):
    """Notes when the positions of machines advance, until it is stopped."""

    def __init__(self, log: JetStreamLog, names: list[str]) -> None:
        super().__init__(daemon=True)
        self._log, self._ended = log, threading.Event()
        self._positions = dict.fromkeys(names, 0)
        self._times: dict[str, list[float]] = {name: [time.monotonic()] for name in names}

    def run(self) -> None:
        """Poll the log."""
        while not self._ended.wait(0.02):
            now = time.monotonic()
            for name, position in self._log.processed().items():
                if position > self._positions.get(name, position):
                    self._positions[name] = position
                    self._times[name].append(now)

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join()

    def longest(self, machine: str, begin: float, end: float) -> float:
        """Return the longest time without an advance that touches an interval."""
        times = self._times[machine]
        pairs = zip(times, [*times[1:], max(times[-1], end)], strict=True)
        return max((after - before for before, after in pairs if after >= begin and before <= end), default=0.0)


def measure(machines: int, seconds: float) -> NodesReport:
    """Run a fleet while nodes come and go, and compare it with a single process."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="cgsa-nodes-") as place:
        workspace = Path(place)
        kills.make_model(workspace / "model")
        prepare_ray(workspace / "ray")
        from benchmarks.fleet.nodes import TwoNodes  # noqa: PLC0415 - Ray reads its environment on import

        with NatsServer(workspace / "nats") as server, TwoNodes(2) as nodes:
            config = FleetConfig(
                folder=str(workspace / "fleet"),
                shards=2,
                log=JetStreamConfig(NatsConfig((server.address,)), remember_seconds=3600.0),
                shard=ShardConfig(checkpoint_seconds=1.0, trim_seconds=None),
                controller=ControllerConfig(check_seconds=0.5, lost_seconds=LOST_SECONDS),
                ray=RayConfig(nodes.address),
                machines=machine_configs(workspace / "model", machines),
            )
            intervals, moved, progress = run(config, nodes, seconds)
        problems, found = compare(config, workspace, seconds)
    names = [one.name for one in config.machines]
    pauses = {
        event: {name: progress.longest(name, *interval) for name in names} for event, interval in intervals.items()
    }
    chosen = {event: moved[event] or set(names) for event in EVENTS}
    return NodesReport(
        machines,
        {event: len(moved[event]) for event in EVENTS},
        {event: round(median(pauses[event][name] for name in chosen[event]), 2) for event in EVENTS},
        {event: round(max(pauses[event][name] for name in chosen[event]), 2) for event in EVENTS},
        {
            event: round(max((pauses[event][name] for name in names if name not in chosen[event]), default=0.0), 2)
            for event in EVENTS
        },
        found["blocks"],
        found["diagnoses"],
        found["ledger_rows"],
        problems,
    )


def prepare_ray(folder: Path) -> None:
    """Keep Ray's ports on loopback, and let it ask for a token."""
    folder.mkdir(mode=0o700)
    (folder / TOKEN).write_text(secrets.token_hex(32), encoding="ascii")
    use_local_ray(folder)
    os.environ["OMP_NUM_THREADS"] = "1"


def run(
    config: FleetConfig, nodes: TwoNodes, seconds: float
) -> tuple[dict[str, tuple[float, float]], dict[str, set[str]], Progress]:
    """Publish in real time while nodes come and go; return when that was, and which machines moved."""
    from cgsa.fleet.cluster import Fleet  # noqa: PLC0415

    with Fleet(config) as fleet, JetStreamLog(config.log) as log:
        insist(fleet.start)
        progress = Progress(log, [one.name for one in config.machines])
        sending = threading.Thread(target=send, args=(log, config, seconds), daemon=True)
        sending.start()
        while len(log.processed()) < len(config.machines):
            time.sleep(0.1)
        progress.start()
        intervals, moved = {}, {}
        actions = {
            "none": lambda: None,
            "add": lambda: insist(lambda: fleet.set_shards(("s1", "s2", "s3", "s4"))),
            "leave": lambda: insist(lambda: fleet.set_shards(("s1", "s2", "s3"))),
            "loss": nodes.kill,
        }
        for event in EVENTS:
            if event == "add":
                nodes.add()
            begun, before = time.monotonic(), places(fleet)
            actions[event]()
            time.sleep(seconds / (len(EVENTS) + 2) + (2 * LOST_SECONDS if event == "loss" else 0.0))
            after = places(fleet)
            moved[event] = {name for name in before if before[name] != after[name]}
            intervals[event] = begun, time.monotonic()
        sending.join()
        ends = {one.name: log.end(one.name) for one in config.machines}
        limit = time.monotonic() + 120
        while any(log.processed().get(name, 0) < end for name, end in ends.items()):
            if time.monotonic() > limit:
                raise RuntimeError("the fleet does not catch up")
            time.sleep(0.1)
        progress.stop()
        fleet.stop()
    return intervals, moved, progress


def insist(action: Callable[[], None]) -> None:
    """Do something, again if a process of the fleet needs longer than usual to start."""
    limit = time.monotonic() + START_SECONDS
    while True:
        try:
            return action()
        except UnavailableError:
            if time.monotonic() > limit:
                raise


def send(log: JetStreamLog, config: FleetConfig, seconds: float) -> None:
    """Publish what all machines measure, in real time."""
    begun = time.monotonic()
    for number, records in enumerate(rounds(config.machines, seconds)):
        time.sleep(max(0.0, begun + ROUND * number - time.monotonic()))
        publish(log, records)


def places(fleet: object) -> dict[str, str]:
    """Return the shard of each machine."""
    return {one.machine.name: one.shard for one in fleet.table().assignments}  # type: ignore[attr-defined]


def table_of(results: Sequence[Result]) -> Table:
    """Return the pauses."""
    texts = {
        "none": "nothing happens",
        "add": "a node joins, two shards more",
        "leave": "a shard leaves",
        "loss": "a node is killed",
    }
    rows = tuple(
        (
            texts[event],
            f"{one['moved'][event]} of {one['machines']}",
            f"{one['pause_median'][event]:.1f}",
            f"{one['pause_longest'][event]:.1f}",
            f"{one['stayed_longest'][event]:.1f}" if event != "none" else "",
        )
        for one in results
        for event in EVENTS
    )
    head = ("event", "machines that moved", "their pause, s (median)", "longest, s", "longest of the others, s")
    return Table("fleet_nodes", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of signal of each machine")
    parser.add_argument("--output", type=Path, default=Path("runs/fleet_nodes"))
    chosen = parser.parse_args()
    found = measure(chosen.machines, chosen.seconds)
    write_result(chosen.output / "nodes.json", asdict(found))
    print(json.dumps(asdict(found)))
    if found.differences:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
