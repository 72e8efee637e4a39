from __future__ import annotations

from dataclasses import fields

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cgsa.live.watch import WatchCounts
from cgsa.service.links.link import Link, LinkStatus
from cgsa.service.metrics import COUNTS, create_registry
from tests.service.running_service import MACHINE, RunningService


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    found: list[Sample] = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {(one.name, tuple(one.labels.values())): one.value for one in found}


def test_metrics_match_the_machines_and_the_store(service: RunningService) -> None:
    with service.client("viewer") as client:
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = samples(answer.text)
    status = service.plant.worker(MACHINE).status()
    assert {field.name for field in fields(WatchCounts)} == set(COUNTS)
    for name in COUNTS:
        assert found[f"cgsa_{name}_total", (MACHINE,)] == getattr(status.counts, name)
    assert found["cgsa_waiting_seconds", (MACHINE,)] == 0
    assert found["cgsa_overload_refusals_total", (MACHINE,)] == 0
    assert found["cgsa_open_case", (MACHINE, "high", "raised")] == 1
    assert found["cgsa_open_case", (MACHINE, "low", "normal")] == 0
    assert found["cgsa_learning", (MACHINE, "learning")] == 1
    assert found["cgsa_learning", (MACHINE, "frozen")] == 0
    assert status.diagnosis is not None
    assert status.diagnosis.levels is not None
    for one in status.diagnosis.levels.channels:
        assert found["cgsa_level", (one.channel, MACHINE, "rms")] == one.rms
        assert found["cgsa_level", (one.channel, MACHINE, "velocity")] == one.velocity
    with service.plant.store.read() as snapshot:
        for table, size in snapshot.sizes().items():
            assert found["cgsa_store_rows", (table,)] == size.rows
            # When a token was last used is written behind the request that used it.
            if table != "tokens":
                assert found["cgsa_store_bytes", (table,)] == size.bytes
    assert found["cgsa_store_problem", ()] == 0
    assert any(name.startswith("process_") for name, _ in found)


def test_metrics_need_a_token(service: RunningService) -> None:
    with service.client(None) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 401
    assert set(answer.json()) == {"error"}


def test_metrics_include_sources_and_sinks(service: RunningService) -> None:
    class Stub(Link):
        def __init__(self, status: LinkStatus) -> None:
            self.status = status

        async def connect(self) -> None:
            raise AssertionError("not called")

    source = Stub(LinkStatus("hall 3", "mqtt", "down", 0.0, "gone", counts={"blocks": 7, "reconnects": 2}))
    sink = Stub(LinkStatus("pager", "webhook", "up", 0.0, counts={"sent": 3}))
    registry = create_registry(service.app.state.context, [source], [sink])
    values = {
        (one.name, tuple(one.labels.values())): one.value for family in registry.collect() for one in family.samples
    }
    assert values["cgsa_source", ("hall 3", "mqtt", "down")] == 1
    assert values["cgsa_source", ("hall 3", "mqtt", "up")] == 0
    assert values["cgsa_source_events_total", ("hall 3", "mqtt", "blocks")] == 7
    assert values["cgsa_sink", ("pager", "webhook", "up")] == 1
    assert values["cgsa_sink_events_total", ("pager", "webhook", "sent")] == 3
