"""API over a fleet: what shards publish is shown, and what people and senders ask goes through the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from cgsa.errors import UnavailableError
from cgsa.events import AlarmChange, Diagnosis, Event, Note
from cgsa.fleet import remote_machine
from cgsa.fleet.assignments import Assignment, AssignmentFolder
from cgsa.fleet.gateway import Gateway, GatewayConfig
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.fleet.machine_status import PublishedMachine
from cgsa.fleet.monitored_fleet import MonitoredFleet
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import ResultBatch, StoredResults
from cgsa.fleet.shard import Shard, ShardConfig
from cgsa.live.alarms import AlarmConfig
from cgsa.live.intake.block import Block
from cgsa.live.store import Store
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from tests.fleet.machines import assignment, model_in, table, until
from tests.service.running_service import BINARY, block, serving

QUICK = ShardConfig(checkpoint_seconds=0.1, write_seconds=0.02, trim_seconds=None)
NAMES = ("m1", "m2")


@dataclass(frozen=True)
class Setup:
    """A fleet of two machines, with its API."""

    fleet: MonitoredFleet
    shard: Shard
    client: httpx.Client


@pytest.fixture
def log(nats_server: NatsServer) -> Iterator[ReplayableLog]:
    with JetStreamLog(JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")) as opened:
        yield opened


@contextmanager
def api_over(folder: Path, log: ReplayableLog, config: GatewayConfig | None = None) -> Iterator[Setup]:
    states, assignments = (ObjectFolder.of(str(folder / name)) for name in ("states", "assignments"))
    hosts = table(*(alarming(assignment(name, model_in(folder))) for name in NAMES))
    AssignmentFolder(assignments).save(hosts)
    store = Store(folder / "store.sqlite")
    authenticator = Authenticator(store)
    fleet = MonitoredFleet(store, Gateway(log, lambda: NAMES, config), assignments, states)
    token = authenticator.create_token("me", "admin")
    with (
        serving(create_app(fleet, authenticator, dashboard=False)) as url,
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20) as client,
        Shard("s1", log, StoredResults(store), states, config=QUICK) as shard,
    ):
        shard.assign(hosts)
        yield Setup(fleet, shard, client)


def alarming(found: Assignment) -> Assignment:
    return replace(found, machine=replace(found.machine, alarms=AlarmConfig(on_delay=0.1)))


def noise(machine: str, count: int) -> list[Block]:
    """Return blocks that the untrained model diagnoses as a fault."""
    return [block(number, machine=machine) for number in range(count)]


def test_the_api_shows_what_shards_publish_and_hands_on_what_people_ask(tmp_path: Path, log: ReplayableLog) -> None:
    seen: list[tuple[str, Event]] = []
    with api_over(tmp_path, log, GatewayConfig(60.0, 30.0)) as setup:
        setup.fleet.subscribe(lambda machine, _, events: seen.extend((machine, event) for event in events))
        sent = noise("m1", 40)
        for each in (*sent, sent[0]):
            answer = setup.client.post("/api/blocks", content=each.to_bytes(), headers=BINARY)
            assert answer.status_code == 202
        # Each is in the log by then, and one that is sent again has its place already.
        assert answer.json()["position"] == next(iter(log.read("m1", 0))).position
        assert [record.payload for record in log.read("m1", 0)] == [each.to_bytes() for each in sent]
        until(lambda: setup.fleet.worker("m1").status().counts.blocks == len(sent))
        (shown, other) = sorted(setup.client.get("/api/machines").json()["machines"], key=lambda one: one["machine"])
        assert (shown["work"], shown["counts"]["windows"] > 0, shown["classes"][0]) == ("working", True, "health")
        assert shown["diagnosis"]["batch"] == shown["counts"]["batches"] - 1
        assert (other["diagnosis"], other["counts"]["blocks"]) == (None, 0)
        rows = setup.client.get("/api/diagnoses", params={"machine": "m1"}).json()["rows"]
        assert len(rows) == shown["counts"]["batches"]
        until(lambda: sum(isinstance(event, Diagnosis) for _, event in seen) == len(rows))
        assert {machine for machine, _ in seen} == {"m1"}

        frozen = setup.client.post("/api/machines/m1/learning/freeze", json={"text": "belt"})
        assert (frozen.status_code, frozen.json()) == (200, {"done": True})
        assert setup.client.get("/api/machines/m1").json()["learning"] == "frozen"
        again = setup.client.post("/api/machines/m1/learning/freeze", json={})
        assert (again.status_code, "already frozen" in again.json()["error"]["message"]) == (409, True)
        until(lambda: any(isinstance(event, Note) and event.topic == "freeze" for _, event in seen))
        assert [entry["who"] for entry in setup.client.get("/api/audit").json()["rows"]][:2] == ["me", "me"]
        case = shown["case"]
        assert case is not None
        done = setup.client.post(f"/api/machines/m1/cases/{case['number']}/acknowledge", json={"text": "seen"})
        assert done.json() == {"done": True}
        found = setup.client.get("/api/cases").json()["rows"]
        assert [(row["machine"], row["case"]["acknowledged_by"]) for row in found] == [("m1", "me")]
        until(lambda: any(isinstance(event, AlarmChange) and event.who == "me" for _, event in seen))
        assert len(setup.client.get("/api/machines/m1/states").json()["states"]) > 0


def test_a_sender_learns_when_the_log_takes_nothing(
    tmp_path: Path, log: ReplayableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_over(tmp_path, log, GatewayConfig(0.2, 0.1, max_waiting=0.35)) as setup:
        setup.shard.stop()
        sent = noise("m1", 40)

        def post(number: int) -> httpx.Response:
            return setup.client.post("/api/blocks", content=sent[number].to_bytes(), headers=BINARY)

        assert [post(number).status_code for number in range(6)] == [202, 202, 202, 202, 503, 503]
        full = post(6)
        assert (full.headers["Retry-After"], "wait already" in full.json()["error"]["message"]) == ("1", True)

        def away(*_: object, **__: object) -> int:
            raise UnavailableError("the log cannot be written") from ConnectionError(0, "no network")

        monkeypatch.setattr(log, "append", away)
        other = setup.client.post("/api/blocks", content=noise("m2", 1)[0].to_bytes(), headers=BINARY)
        assert (other.status_code, other.headers["Retry-After"]) == (503, "1")
        assert setup.client.post("/api/machines/m1/learning/freeze", json={}).status_code == 503
        assert setup.client.post("/api/blocks", content=noise("m9", 1)[0].to_bytes(), headers=BINARY).status_code == 404
        assert httpx.post(f"{setup.client.base_url}/api/blocks", content=b"").status_code == 401


def test_a_machine_whose_shard_is_silent_is_not_taken_for_watched(
    tmp_path: Path, log: ReplayableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_over(tmp_path, log) as setup:
        for each in noise("m1", 20):
            setup.fleet.submit(each)
        until(lambda: setup.fleet.worker("m1").status().counts.blocks == 20)
        assert setup.client.get("/ready").status_code == 200
        setup.shard.stop()
        monkeypatch.setattr(remote_machine, "SILENT_SECONDS", 0.1)
        time.sleep(0.2)
        shown = setup.client.get("/api/machines/m1").json()
        assert (shown["work"], "no word from its shard" in shown["problem"]) == ("retrying", True)
        assert setup.client.get("/ready").status_code == 503


def test_the_number_of_queries_depends_on_neither_machines_nor_shards(tmp_path: Path, log: ReplayableLog) -> None:
    model, counts = model_in(tmp_path), []
    for machines, shards in ((2, 1), (40, 8)):
        folder = tmp_path / str(machines)
        names = [f"m{number}" for number in range(machines)]
        assignments = ObjectFolder.of(str(folder / "assignments"))
        AssignmentFolder(assignments).save(
            table(*(assignment(name, model, f"s{number % shards}") for number, name in enumerate(names)))
        )
        store = Store(folder / "store.sqlite")
        results = StoredResults(store)
        epochs = results.claim(dict.fromkeys(names, 1), {})
        fleet = MonitoredFleet(store, Gateway(log, tuple), assignments, ObjectFolder.of(str(folder / "states")))
        fleet.poll()
        assert len(fleet.machines) == machines
        results.write([ResultBatch(name, epochs[name], (), published(name)) for name in names])
        queries: list[str] = []
        with store.read() as snapshot:
            snapshot._connection.set_trace_callback(queries.append)  # type: ignore[attr-defined]  # that of SQLite
        fleet.poll()
        assert all(worker.status().counts.blocks == 7 for worker in fleet.workers.values())
        counts.append(len(queries))
        results.write(
            [ResultBatch("m0", epochs["m0"], (), "{}"), ResultBatch("m1", epochs["m1"], (), published("m1", 8))]
        )
        fleet.poll()
        assert [fleet.worker(name).status().counts.blocks for name in ("m0", "m1")] == [7, 8]
        assert [one.task for one in fleet.problems] == ["read the status of m0"]
        fleet.stop()
    assert counts[0] == counts[1] > 0


def published(machine: str, blocks: int = 7) -> str:
    status = WorkerStatus(machine, "normal", None, "learning", 0.0, 0, WatchCounts(blocks=blocks), 1.0, None)
    return PublishedMachine(1, 8, 0.0, (), status).to_text()
