"""Figures for Prometheus, at ``/metrics``.

They need a viewer's token, also from this machine: behind a proxy everybody
comes from this machine. Prometheus sends one with ``authorization:
credentials_file``. Counts of a machine are part of its state, so they go on
after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cgsa.errors import DataError
from cgsa.live.alarms import SEVERITIES
from cgsa.live.watch import WatchCounts
from cgsa.service.context import ServiceContext

COUNTS: Mapping[str, str] = {
    "blocks": "Blocks that were taken in",
    "refused_blocks": "Blocks that were not believed",
    "gaps": "Gaps between blocks",
    "batches": "Batches that were diagnosed",
    "windows": "Windows that were cut",
    "flagged": "Windows that were not believed",
    "learnt": "Windows that were learnt from",
    "shed": "Windows that were not learnt from, since there was too much to do",
}
"""What is told of each count of a watch."""
LEARNING = ("learning", "frozen", "shed", "catching up")
STATES = ("connecting", "up", "down", "ended")
"""Of a source or sink."""


class LinkStatus(Protocol):
    """How a source or sink stands."""

    @property
    def name(self) -> str:
        """By which people know it."""

    @property
    def kind(self) -> str:
        """What is at its other side."""

    @property
    def state(self) -> str:
        """In a word."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What it did and what befell it."""


class Linked(Protocol):
    """A source."""

    @property
    def status(self) -> LinkStatus:
        """How it stands."""


class AllLinked(Protocol):
    """All sinks."""

    @property
    def statuses(self) -> Sequence[LinkStatus]:
        """How each stands."""


class ServiceMetrics(Collector):
    """Reads the figures of a service when they are asked for.

    Parameters
    ----------
    parts
        The service.
    sources
        Where blocks come from.
    sinks
        Who is told of alarms.
    """

    def __init__(self, parts: ServiceContext, sources: Sequence[Linked] = (), sinks: AllLinked | None = None) -> None:
        self._parts, self._sources, self._sinks = parts, tuple(sources), sinks

    def collect(self) -> Iterator[Metric]:
        """Return all figures as they are now."""
        yield from self._machines()
        yield from self._store()
        yield from _links("source", [source.status for source in self._sources])
        yield from _links("sink", self._sinks.statuses if self._sinks is not None else ())
        yield GaugeMetricFamily("cgsa_listeners", "Clients that listen to events", self._parts.feed.listeners)

    def _machines(self) -> Iterator[Metric]:
        workers = list(self._parts.plant.workers.values())
        found = [(worker.status(), worker.watch.alarms.case) for worker in workers]
        for count in (field.name for field in fields(WatchCounts)):
            family = CounterMetricFamily(f"cgsa_{count}", COUNTS[count], labels=["machine"])
            for status, _ in found:
                family.add_metric([status.machine], getattr(status.counts, count))
            yield family
        overload = CounterMetricFamily(
            "cgsa_overload_refusals", "Blocks refused as too many waited", labels=["machine"]
        )
        waiting = GaugeMetricFamily("cgsa_waiting_seconds", "Signal that waits to be diagnosed", labels=["machine"])
        time = GaugeMetricFamily("cgsa_stream_time_seconds", "Time of the newest sample", labels=["machine"])
        trouble = GaugeMetricFamily("cgsa_machine_problem", "1 where a person has to look", labels=["machine"])
        learning = GaugeMetricFamily("cgsa_learning", "1 for how the machine learns now", labels=["machine", "state"])
        case = GaugeMetricFamily("cgsa_open_case", "1 where a case is open", labels=["machine", "severity", "state"])
        for status, newest in found:
            name = [status.machine]
            overload.add_metric(name, status.refused)
            waiting.add_metric(name, status.waiting)
            time.add_metric(name, status.now)
            trouble.add_metric(name, float(status.problem is not None))
            for state in LEARNING:
                learning.add_metric([*name, state], float(status.learning == state))
            for severity in SEVERITIES:
                there = newest is not None and newest.open and newest.severity == severity
                case.add_metric([*name, severity, status.standing if there else "normal"], float(there))
        yield from (overload, waiting, time, trouble, learning, case)

    def _store(self) -> Iterator[Metric]:
        store = self._parts.plant.store
        yield GaugeMetricFamily("cgsa_store_problem", "1 where the store cannot be written", store.problem is not None)
        yield GaugeMetricFamily("cgsa_store_waiting", "Writes that wait", store.waiting)
        yield CounterMetricFamily("cgsa_store_lost", "Writes that were given up", store.lost)
        rows = GaugeMetricFamily("cgsa_store_rows", "Rows of a table", labels=["table"])
        size = GaugeMetricFamily("cgsa_store_bytes", "Bytes of a table's values", labels=["table"])
        try:
            with store.read() as snapshot:
                sizes = snapshot.sizes()
        except DataError:
            sizes = {}  # the problem is told of above; all other figures are still wanted
        for table, held in sizes.items():
            rows.add_metric([table], held.rows)
            size.add_metric([table], held.bytes)
        yield from (rows, size)


def create_registry(
    parts: ServiceContext, sources: Sequence[Linked] = (), sinks: AllLinked | None = None
) -> CollectorRegistry:
    """Return a registry with the figures of a service, and those of its process."""
    registry = CollectorRegistry()
    registry.register(ServiceMetrics(parts, sources, sinks))
    ProcessCollector(registry=registry)
    return registry


def _links(side: str, links: Sequence[LinkStatus]) -> Iterator[Metric]:
    """Return how sources or sinks stand."""
    state = GaugeMetricFamily(f"cgsa_{side}", f"1 for how a {side} stands", labels=["name", "kind", "state"])
    counts = CounterMetricFamily(f"cgsa_{side}_events", f"What befell a {side}", labels=["name", "kind", "what"])
    for status in links:
        for one in STATES:
            state.add_metric([status.name, status.kind, one], float(status.state == one))
        for what, count in status.counts.items():
            counts.add_metric([status.name, status.kind, what], count)
    yield from (state, counts)
