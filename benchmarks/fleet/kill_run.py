"""Runs a fleet and kills it piece by piece; Ray is imported here, after its environment is set."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray

from cgsa.errors import CgsaError
from cgsa.fleet.cluster import Fleet
from cgsa.fleet.config import FleetConfig
from cgsa.fleet.log.jetstream import JetStreamLog
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.ray_actors import CONTROLLER, RESULTS, SHARD

KINDS = ("actors", "workers", "controller", "results", "driver", "nats-server")
"""What is killed, each of them the given number of times."""
ROOT = Path(__file__).resolve().parents[2]
CATCH_UP_SECONDS = 900.0
LONGEST_PAUSE = 2.0
"""Longest time between two kills, in seconds, besides that until some rounds are published."""


class Driver:
    """The process that publishes, started again after each kill."""

    def __init__(self, workspace: Path, rng: random.Random) -> None:
        self._workspace, self._rng = workspace, rng
        self.published = self.repeated = self._allowed = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Continue a few rounds before the last one that was acknowledged."""
        again = max(0, self.published - self._rng.choice((0, 0, 1, 3)))
        self.repeated += self.published - again
        command = [sys.executable, "-m", "benchmarks.fleet.driver", str(self._workspace), str(again)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        with (self._workspace / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - no input from outside
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        self.allow(self._allowed)

    def allow(self, rounds: int) -> None:
        """Let it publish up to a number of rounds."""
        self._allowed = rounds
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{rounds}\n")
                self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until all that is allowed is acknowledged."""
        limit = time.monotonic() + CATCH_UP_SECONDS
        while self.published < self._allowed:
            if self._process is None or self._process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"the driver ended or stands still at round {self.published}; see driver.log")
            time.sleep(0.02)

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Read which rounds are acknowledged."""
        for line in process.stdout or ():
            # The last line of a process that is killed may be cut short.
            if line.endswith("\n"):
                self.published = max(self.published, int(line) + 1)

    def kill(self) -> None:
        """Kill it, and start it again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reader.join()
        self.start()

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Killer:
    """Kills one thing after the other, all of them the same number of times, in random order."""

    def __init__(self, fleet: Fleet, server: NatsServer, driver: Driver, rng: random.Random) -> None:
        self._fleet, self._server, self._driver, self._rng = fleet, server, driver, rng
        self.done: Counter[str] = Counter()
        self.moves = self.repeated = 0
        self._actions: dict[str, Callable[[], None]] = {
            "actors": self._kill_actor,
            "workers": self._kill_worker,
            "controller": lambda: ray.kill(self._actor(CONTROLLER), no_restart=False),
            "results": lambda: ray.kill(self._actor(RESULTS), no_restart=False),
            "driver": driver.kill,
            "nats-server": self._kill_server,
        }

    def kill(self, kind: str) -> None:
        """Kill one; what is just being restarted is waited for."""
        limit = time.monotonic() + CATCH_UP_SECONDS
        while True:
            try:
                self._actions[kind]()
            except (CgsaError, ray.exceptions.RayError, ProcessLookupError, ValueError) as error:
                if time.monotonic() > limit:
                    raise RuntimeError(f"nothing to kill: {kind}") from error
                time.sleep(0.5)
            else:
                self.done[kind] += 1
                return

    def move(self) -> None:
        """Move a machine to another shard, unless the controller is away."""
        with suppress(CgsaError):
            table = self._fleet.table()
            chosen = self._rng.choice(table.assignments)
            others = [shard for shard in table.shards if shard != chosen.shard]
            if others:
                self._fleet.move(chosen.machine.name, self._rng.choice(others))
                self.moves += 1

    def _kill_actor(self) -> None:
        ray.kill(self._actor(f"{SHARD} {self._rng.choice(self._fleet.table().shards)}"), no_restart=False)

    def _kill_worker(self) -> None:
        statuses = [*self._fleet.statuses().values()]
        if not statuses:
            raise ProcessLookupError("no shard answers")
        os.kill(self._rng.choice(statuses).process, signal.SIGKILL)

    def _kill_server(self) -> None:
        self._server.kill()
        time.sleep(self._rng.uniform(0.0, 1.0))
        self._server.start()

    def _actor(self, name: str) -> Any:
        return ray.get_actor(name, namespace=self._fleet.config.ray.namespace)


def run_fleet(
    workspace: Path, config: FleetConfig, server: NatsServer, *, rounds: int, count: int, seed: int
) -> Killer:
    """Run the fleet with kills until every machine has processed its log and saved its last state."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    driver = Driver(workspace, rng)
    order = [kind for kind in KINDS for _ in range(count)]
    rng.shuffle(order)
    with Fleet(config) as fleet, JetStreamLog(config.log) as log:
        driver.start()
        killer = Killer(fleet, server, driver, rng)
        try:
            for number, kind in enumerate(order):
                driver.allow(rounds * (number + 1) // (len(order) + 1))
                driver.wait()
                killer.move()
                time.sleep(rng.uniform(0.0, LONGEST_PAUSE))
                killer.kill(kind)
                _show(f"{number + 1} of {len(order)} kills, round {driver.published} of {rounds}")
            driver.allow(rounds)
            driver.wait()
            _wait_until_saved(fleet, log)
        finally:
            driver.stop()
        killer.repeated = driver.repeated
    return killer


def _wait_until_saved(fleet: Fleet, log: JetStreamLog) -> None:
    """Wait until the newest state of every machine includes all of its log."""
    states, limit = fleet.config.states_folder(), time.monotonic() + CATCH_UP_SECONDS
    missing = {machine.name for machine in fleet.config.machines}
    while missing:
        ends = {name: log.end(name) for name in missing}
        missing = {
            name for name in missing if f"{ends[name]:020d}.state" not in _newest_state(states.below(name).names())
        }
        _show(f"{len(missing)} machines are not done")
        if time.monotonic() > limit:
            raise RuntimeError(f"{len(missing)} machines are not done: {', '.join(sorted(missing)[:5])}")
        time.sleep(0.5)


def _newest_state(names: tuple[str, ...]) -> str:
    return names[-1] if names else ""


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}    ", end="", file=sys.stderr)
