from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from cgsa.service.limits import RequestLimits
from tests.service.running_service import MACHINE, RunningService, running_service


def events(response: httpx.Response) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                yield fields
            fields = {}


def wait_for(service: RunningService, count: int) -> None:
    end = time.monotonic() + 10
    while service.app.state.context.feed.listeners != count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_events_are_streamed_and_resumed(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("viewer") as client:
        with client.stream("GET", "/api/events", params={"machine": MACHINE}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            wait_for(service, 1)
            service.feed(30)
            stream = events(response)
            messages = [next(stream) for _ in range(2)]
        payloads = [json.loads(one["data"]) for one in messages]
        assert all(one["machine"] == MACHINE for one in payloads)
        assert [one["event"] for one in messages] == [one["event"] for one in payloads]
        wait_for(service, 0)
        headers = {"Last-Event-ID": messages[0]["id"]}
        with client.stream("GET", "/api/events", params={"machine": MACHINE}, headers=headers) as response:
            assert next(events(response)) == messages[1]


def test_the_number_of_listeners_is_limited(tmp_path: Path) -> None:
    with running_service(tmp_path, limits=RequestLimits(streams=1)) as service, service.client("viewer") as client:
        with client.stream("GET", "/api/events"):
            wait_for(service, 1)
            answer = client.get("/api/events")
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
        wait_for(service, 0)
        with client.stream("GET", "/api/events") as response:
            assert response.status_code == 200


def test_one_token_cannot_take_all_streams(tmp_path: Path) -> None:
    limits = RequestLimits(streams=3, token_streams=2)
    with ExitStack() as stack:
        service = stack.enter_context(running_service(tmp_path, limits=limits))
        greedy, other = stack.enter_context(service.client("viewer")), stack.enter_context(service.client("operator"))
        for _ in range(2):
            stack.enter_context(greedy.stream("GET", "/api/events"))
        wait_for(service, 2)
        for _ in range(3):
            answer = greedy.get("/api/events")
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "10")
        with other.stream("GET", "/api/events") as response:
            assert response.status_code == 200


def test_a_stream_has_the_events_of_the_machines_of_its_token(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with running_service(tmp_path) as service:
            streams = {
                who: stack.enter_context(stack.enter_context(service.client(who)).stream("GET", "/api/events"))
                for who in ("viewer here", "viewer elsewhere")
            }
            wait_for(service, 2)
            service.feed(30)
        found = {who: [one["event"] for one in events(response)] for who, response in streams.items()}
    assert "diagnosis" in found["viewer here"]
    assert found["viewer elsewhere"] == ["bye"]


def test_resuming_costs_time_for_reading(tmp_path: Path) -> None:
    limits = RequestLimits(read_share=1e-6, read_burst=1e-9)
    with running_service(tmp_path, limits=limits) as service, service.client("viewer") as client:
        service.feed(30)
        headers = {"Last-Event-ID": "00000000-1-1.5"}
        with client.stream("GET", "/api/events", params={"machine": MACHINE}, headers=headers) as response:
            next(events(response))
        wait_for(service, 0)
        with client.stream("GET", "/api/events", headers=headers) as response:
            (message,) = events(response)
        assert message["event"] == "dropped"
        assert "used up its time for reading" in message["data"]
        assert client.get("/api/diagnoses").status_code == 429


def test_an_unknown_machine_has_no_stream(service: RunningService) -> None:
    with service.client("viewer") as client:
        assert client.get("/api/events", params={"machine": "other"}).status_code == 404


def test_the_service_shuts_down_with_listeners_connected(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with running_service(tmp_path) as service:
            client = stack.enter_context(service.client("viewer"))
            response = stack.enter_context(client.stream("GET", "/api/events"))
            wait_for(service, 1)
        assert [one["event"] for one in events(response)] == ["bye"]
