from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cgsa.errors import ConfigError
from cgsa.live.store import RowSelection
from cgsa.service.telemetry.config import TelemetryConfig
from cgsa.service.telemetry.tracing import Tracing
from tests.service.running_service import BINARY, MACHINE, RunningService, block, running_service

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """A service whose spans stay in memory."""

    def __init__(self, service: RunningService, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
        self.service, self._tracing, self._exporter = service, tracing, exporter

    def spans(self, name: str) -> list[Mapping[str, object]]:
        return [dict(span.attributes or {}) for span in self.raw(name)]

    def raw(self, name: str) -> list[ReadableSpan]:
        self._tracing.flush()
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    exporter = InMemorySpanExporter()
    tracing = Tracing(TelemetryConfig("http://127.0.0.1:4318"), exporter)
    with running_service(
        tmp_path_factory.mktemp("service"), tracing=tracing, on_processed=tracing.trace_batch
    ) as service:
        yield Traced(service, tracing, exporter)


def test_every_batch_is_a_span(traced: Traced) -> None:
    service = traced.service
    service.feed(40)
    with service.plant.store.read() as snapshot:
        stored = [row.diagnosis for row in snapshot.diagnoses(MACHINE, RowSelection(limit=100)).rows]
    spans = traced.raw("diagnose batch")
    assert len(spans) == len(stored) > 0
    found = {(span.attributes or {})["cgsa.batch"]: dict(span.attributes or {}) for span in spans}
    for one in stored:
        assert found[one.batch]["cgsa.machine"] == MACHINE
        assert (found[one.batch]["cgsa.verdict"], found[one.batch]["cgsa.windows"]) == (one.verdict, one.windows)
    for span in spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert 0 < span.end_time - span.start_time < 60e9


def test_every_request_is_a_span_named_after_its_route(traced: Traced) -> None:
    with traced.service.client("viewer") as client:
        number = client.get(f"/api/machines/{MACHINE}").headers["X-Request-ID"]
        assert client.get("/api/machines/none").status_code == 404
        client.get("/ready")
        client.get("/metrics")
    right, wrong = traced.spans("GET /api/machines/{machine}")
    assert right == {
        "http.request.method": "GET",
        "http.route": "/api/machines/{machine}",
        "http.response.status_code": 200,
        "cgsa.machine": MACHINE,
        "cgsa.request": number,
    }
    assert wrong["http.response.status_code"] == 404
    assert traced.spans("GET /ready") == traced.spans("GET /metrics") == []


def test_a_trace_is_continued_for_clients_with_a_token_only(traced: Traced) -> None:
    for role in ("sender", None):
        with traced.service.client(role) as client:
            client.post("/api/blocks", content=block(900).to_bytes(), headers={**BINARY, "traceparent": PARENT})
    parents = [span.parent for span in traced.raw("POST /api/blocks")]
    assert parents[0] is not None
    assert f"{parents[0].trace_id:032x}" == PARENT.split("-")[1]
    assert parents[1:] == [None]


def test_spans_reach_a_collector() -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        tracing = Tracing(TelemetryConfig(f"http://127.0.0.1:{server.server_port}/", name="hall 3"))
        tracing.tracer.start_span("one").end()
        tracing.close()
        thread.join()
    (spans,) = ExportTraceServiceRequest.FromString(bodies[0]).resource_spans
    assert "hall 3" in [one.value.string_value for one in spans.resource.attributes if one.key == "service.name"]
    assert [span.name for span in spans.scope_spans[0].spans] == ["one"]


def test_a_share_is_traced() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(TelemetryConfig("http://127.0.0.1:4318", share=0.0), exporter)
    tracing.tracer.start_span("none").end()
    tracing.close()
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(("endpoint", "share"), [("127.0.0.1:4318", 1.0), ("http://x", 1.5)])
def test_wrong_settings_are_refused(endpoint: str, share: float) -> None:
    with pytest.raises(ConfigError, match="expected"):
        TelemetryConfig(endpoint, share=share)


def test_nothing_is_imported_without_the_settings(tmp_path: Path) -> None:
    code = (
        "import sys; from cgsa.service.config import ServiceConfig; from cgsa.service.service import create_service;"
        f"create_service(ServiceConfig(folder={str(tmp_path / 'plant')!r})).plant.stop();"
        "found = {name for name in sys.modules if name.split('.')[0] in {'joserfc'} or"
        " name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))};"
        "assert not found, sorted(found)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
