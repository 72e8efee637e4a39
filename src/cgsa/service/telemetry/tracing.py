"""Traces of requests and batches: a span each, sent in the background to a collector.

Spans wait in a queue of bounded length while the collector is slow or away; beyond it they are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cgsa import __version__
from cgsa.events import Diagnosis
from cgsa.live.entry_processor import ProcessedEntry
from cgsa.service.middleware import OPEN, PERSON_KEY
from cgsa.service.request_ids import current_request
from cgsa.service.telemetry.config import TelemetryConfig

SEND_SECONDS = 5.0
"""Time for the collector to take spans."""
UNTRACED = frozenset({*OPEN, "/metrics", "/api/events"})
"""Paths without spans: what monitoring asks all the time, and streams that do not end."""


class Tracing:
    """Makes spans and sends them; usable from any thread. ``exporter`` takes them instead of the collector."""

    def __init__(self, config: TelemetryConfig, exporter: SpanExporter | None = None) -> None:
        resource = Resource.create({"service.name": config.name, "service.version": __version__})
        # Not the provider of the process: several services can run in one.
        self._provider = TracerProvider(resource=resource, sampler=ParentBased(TraceIdRatioBased(config.share)))
        target = exporter or OTLPSpanExporter(f"{config.endpoint.rstrip('/')}/v1/traces", timeout=SEND_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(target))
        self.tracer: Tracer = self._provider.get_tracer("cgsa", __version__)

    def close(self) -> None:
        """Send what waits, and stop."""
        self._provider.shutdown()

    def flush(self) -> None:
        """Send what waits."""
        self._provider.force_flush()

    def trace_batch(self, machine: str, done: ProcessedEntry, begun: int) -> None:
        """Make a span of an entry of the journal that completed a batch; ``begun`` is in nanoseconds since 1970."""
        for event in done.result.events:
            if not isinstance(event, Diagnosis):
                continue
            about: dict[str, str | int | float] = {
                "cgsa.machine": machine,
                "cgsa.position": done.entry.position,
                "cgsa.batch": event.batch,
                "cgsa.windows": event.windows,
                "cgsa.verdict": event.verdict,
                "cgsa.stream_time": event.end,
            }
            if event.accepted is not None:
                about["cgsa.accepted"] = event.accepted
            self.tracer.start_span("diagnose batch", Context(), start_time=begun, attributes=about).end()


class RequestTraces:
    """Makes a span of each request.

    It continues the trace of a client with a valid token; others could make the service trace all they send.
    """

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app, self._tracer = app, tracing.tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and trace it."""
        if scope["type"] != "http" or scope["path"] in UNTRACED:
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = Context() if scope.get(PERSON_KEY) is None else propagate.extract(headers, Context())
        with self._tracer.start_as_current_span(scope["method"], parent, SpanKind.SERVER) as span:

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            try:
                await self._app(scope, receive, watched)
            finally:
                _describe(span, scope)


def _describe(span: Span, scope: Scope) -> None:
    """Name a span after the route, which is known once the request was answered."""
    route = getattr(scope.get("route"), "path", None)
    if isinstance(route, str):
        whole = f"{scope.get('root_path', '')}{route}"
        span.update_name(f"{scope['method']} {whole}")
        span.set_attribute("http.route", whole)
    parameters: Mapping[str, object] = scope.get("path_params", {})
    if "machine" in parameters:
        span.set_attribute("cgsa.machine", str(parameters["machine"]))
    span.set_attribute("http.request.method", scope["method"])
    span.set_attribute("cgsa.request", current_request() or "")
