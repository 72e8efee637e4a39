"""A service in a process of its own, senders that never give up, and everything that is known of a run."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from benchmarks.faults.registry import FAULTS, Fault
from benchmarks.faults.service import Place, serve
from benchmarks.faults.streams import BLOCK, RATE
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from cgsa.live.intake.block import Block
from cgsa.live.store import RowSelection, Store
from cgsa.live.store.store import read_store
from cgsa.service.auth import Authenticator

START_SECONDS = 120.0
"""How long a service may take to answer after its start."""
REFUSED_BEFORE_READMISSION = 6
"""Blocks in a row that are refused before the operator of a run admits the sender anew."""


class FaultRun:
    """One run: ``patience`` stretches the faults, so that a short run has short ones."""

    def __init__(self, folder: Path, model: Path, names: tuple[str, ...], *, mqtt: int, patience: float) -> None:
        self.folder, self.model, self.names, self.patience = folder, model, names, patience
        self.acknowledged: dict[str, set[tuple[int, float]]] = {name: set() for name in names}
        """Sequence and time of the blocks that were answered with 202."""
        self.answers: Counter[int] = Counter()
        """How often the service answered with each status."""
        self.reasons: Counter[str] = Counter()
        """Reasons of ``/ready`` during faults."""
        self.unanswered = self.restarts = self.readmitted = 0
        self.broker: int | None = None
        """Port of the broker."""
        self.by_mqtt: tuple[str, ...] = ()
        self.struck: list[Fault] = []
        """The faults that have befallen it."""
        self._sample = b""
        # The processes have torch loaded already, and none of the locks of this one's threads.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["benchmarks.faults.service"])
        self._child: ForkServerProcess | None = None
        self._control: Connection | None = None
        self._processes = threading.Lock()
        self._notes: str | None = None
        self._audit: str | None = None
        self.port = free_port()
        self._program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        self._broker_process: subprocess.Popen[bytes] | None = None
        if mqtt and self._program is not None:
            self.broker, self.by_mqtt = free_port(), names[:mqtt]
            self._start_broker()
        folder.mkdir(parents=True, exist_ok=True)
        with Store(folder / "store.sqlite") as store:
            self._token = Authenticator(store).create_token("sender", "operator")
            self.viewer = Authenticator(store).create_token("reader", "viewer")
            """A token that can only read."""

    def start_service(self) -> None:
        """Start the service, as often as it takes, and wait until it answers."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            theirs, self._control = self._context.Pipe(duplex=False)
            place = Place(self.folder, self.model, self.names, self.port, self.broker)
            self._child = self._context.Process(target=serve, args=(place, theirs), daemon=True)
            self._child.start()
            theirs.close()
            while self._child.is_alive() and time.monotonic() < end:
                if self.request("/health", None) == 200:
                    return
                time.sleep(0.05)
            self._child.join()
        raise SystemExit("the service does not answer")

    def restart_service(self) -> None:
        """Kill the service and start it again."""
        with self._processes:
            self.stop_service()
            self.restarts += 1
            self.start_service()

    def stop_service(self) -> None:
        """Kill the service."""
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child = None

    def restart_broker(self, pause: float) -> None:
        """Kill the broker, and start it after a pause."""
        with self._processes:
            self.stop_broker()
            time.sleep(pause)
            self._start_broker()

    def stop_broker(self) -> None:
        """Kill the broker."""
        if self._broker_process is not None:
            self._broker_process.kill()
            self._broker_process.wait()

    @contextmanager
    def switched(self, what: str, value: int) -> Iterator[None]:
        """Let something fail in the service; a service that is restarted meanwhile is sound again."""
        self._switch(what, value)
        try:
            yield
        finally:
            self._switch(what, 0)

    def send(self, blocks: list[Block], speed: float) -> None:
        """Send the stream of one machine over HTTP, each block until it is taken or refused for good."""
        begin = time.monotonic()
        for number, block in enumerate(blocks):
            time.sleep(max(0.0, begin + number * BLOCK / RATE / speed - time.monotonic()))
            self._sample = body = block.to_bytes()
            while (status := self.post(body)) in {None, 408, 429, 500, 503}:
                time.sleep(0.05)
            if status == 202:
                self.acknowledged[block.machine].add((block.sequence, block.time))

    def operate(self, done: threading.Event) -> None:
        """Act as the operator: admit senders anew whose blocks are refused one after the other."""
        while not done.wait(0.2):
            for one in self.status():
                run = one["refused_run"]
                if isinstance(run, dict) and run["count"] >= REFUSED_BEFORE_READMISSION:
                    path = f"/api/machines/{one['machine']}/sender/readmit"
                    self.readmitted += self.request(path, b"{}") in {200, 202}

    def publish(self, blocks: list[Block], speed: float) -> None:
        """Send the stream of one machine to the broker, each block until the broker has acknowledged it."""
        client = Client(CallbackAPIVersion.VERSION2, client_id=f"sender-{blocks[0].machine}", clean_session=False)
        client.reconnect_delay_set(1, 1)
        client.connect_async("127.0.0.1", self.broker or 0)
        client.loop_start()
        begin = time.monotonic()
        for number, block in enumerate(blocks):
            time.sleep(max(0.0, begin + number * BLOCK / RATE / speed - time.monotonic()))
            while not self._published(client, block):
                time.sleep(0.05)
        client.disconnect()
        client.loop_stop()

    def _published(self, client: Client, block: Block) -> bool:
        """Publish a block, and wait until the broker has it; return whether that came about."""
        if not client.is_connected():
            return False
        sent = client.publish(f"cgsa/{block.machine}/blocks", block.to_bytes(), qos=1)
        try:
            sent.wait_for_publish(5.0)
        except (RuntimeError, ValueError):
            return False  # The broker was killed meanwhile.
        return bool(sent.is_published())

    def post(self, body: bytes) -> int | None:
        """Post a block; return the status, or None without an answer."""
        status = self.request("/api/blocks", body)
        if status is None:
            self.unanswered += 1
        else:
            self.answers[status] += 1
        return status

    def some_block(self) -> bytes:
        """Return a block that was sent."""
        return self._sample or b"CGSB"

    def ask_ready(self) -> None:
        """Remember why the service says that it is not ready."""
        found = self._fetch("/ready", None)
        if found is not None and found[0] in {200, 503}:
            self.reasons.update(json.loads(found[1])["reasons"])

    def status(self) -> list[dict[str, object]]:
        """Return the status of all machines; nothing if the service gives none at present."""
        found = self._fetch("/api/machines", None)
        return [] if found is None or found[0] != 200 else list(json.loads(found[1])["machines"])

    def was_noted(self, text: str) -> bool:
        """Return whether a note of any machine contains a text; asked when the run is over."""
        if self._notes is None:
            with read_store(self.folder / "store.sqlite") as snapshot:
                self._notes = "\n".join(
                    note.text
                    for name in self.names
                    for note in snapshot.notes(name, pick=RowSelection(limit=1000)).rows
                )
        return text in self._notes

    def was_audited(self, result: str) -> bool:
        """Return whether the audit has a result that contains a text; asked when the run is over."""
        if self._audit is None:
            with read_store(self.folder / "store.sqlite") as snapshot:
                self._audit = "\n".join(entry.result for entry in snapshot.audit(pick=RowSelection(limit=1000)).rows)
        return result in self._audit

    def metric(self, name: str) -> float | None:
        """Return a metric without labels; None if the service does not give it at present."""
        found = self._fetch("/metrics", None)
        lines = [] if found is None or found[0] != 200 else found[1].decode().splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)

    def request(self, path: str, body: bytes | None, *, token: str | None = None) -> int | None:
        """Send a request and return its status, or None without an answer; ``token`` is that of somebody else."""
        found = self._fetch(path, body, token)
        return None if found is None else found[0]

    def _fetch(self, path: str, body: bytes | None, token: str | None = None) -> tuple[int, bytes] | None:
        kind = "application/json" if body == b"{}" else "application/octet-stream"
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": kind}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - http on loopback
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            try:
                return error.code, error.read()
            except (OSError, HTTPException):
                return None
        except (OSError, HTTPException):
            return None

    def _switch(self, what: str, value: int) -> None:
        try:
            if self._control is not None:
                self._control.send((what, value))
        except OSError:
            return  # It is being restarted.

    def _start_broker(self) -> None:
        folder = self.folder.with_name(f"{self.folder.name}-broker")
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"listener {self.broker} 127.0.0.1", "allow_anonymous true", "user root", "persistence false"]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [str(self._program), "-c", str(folder / "mosquitto.conf")]
        self._broker_process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def strike_until(run: FaultRun, done: threading.Event, names: list[str], struck: Counter[str], seed: int) -> None:
    """Let faults befall a run in random order until all senders are done; each at least once."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    order: list[str] = []
    while not done.is_set() or order:
        if not order:
            order = rng.sample(names, len(names))
        name = order.pop()
        fault = FAULTS[name](run, rng)
        before = run.restarts
        fault.strike()
        fault.cut_short = run.restarts - before > fault.own_restarts
        struck[name] += 1
        run.struck.append(fault)
        time.sleep(rng.uniform(0.1, 0.5) * run.patience)
