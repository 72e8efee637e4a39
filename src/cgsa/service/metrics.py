"""Metrics for Prometheus, at ``/metrics``.

They need a viewer's token even from this machine: behind a proxy, all requests come from this machine. Prometheus sends
one with ``authorization: credentials_file``. Counts of a machine are part of its state, so they continue after a
restart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cgsa.errors import DataError
from cgsa.live.alarms import SEVERITIES
from cgsa.live.levels.limits import QUANTITIES
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkerStatus, WorkState
from cgsa.service.context import ServiceContext
from cgsa.service.links.link import Link, LinkState
from cgsa.service.notification_metrics import notification_metrics
from cgsa.service.rights import Person

COUNTS: Mapping[str, str] = {
    "blocks": "Blocks accepted",
    "refused_blocks": "Blocks rejected as invalid",
    "gaps": "Gaps between blocks",
    "batches": "Batches diagnosed",
    "windows": "Windows cut",
    "flagged": "Windows rejected by the quality gate",
    "learnt": "Windows used for adaptation",
    "shed": "Windows diagnosed without adaptation because of overload",
    "still": "Windows at standstill, not diagnosed",
    "lost": "Records of the journal that were damaged or skipped",
}
"""Descriptions of the counts of a watch."""
LEARNING = ("learning", "frozen", "shed", "catching up")


class ServiceMetrics(Collector):
    """Reads the metrics of a service and its links on request."""

    def __init__(self, context: ServiceContext, sources: Iterable[Link], sinks: Iterable[Link]) -> None:
        self._context, self._sources, self._sinks = context, sources, sinks

    def collect(self) -> Iterator[Metric]:
        """Return the current values of all metrics."""
        yield from self._machines()
        yield from self._store()
        yield from _links("source", self._sources)
        yield from _links("sink", self._sinks)
        yield GaugeMetricFamily("cgsa_listeners", "Clients that listen to events", self._context.feed.listeners)
        yield from self._traffic()
        yield from notification_metrics(self._context)

    def _machines(self) -> Iterator[Metric]:
        workers = list(self._context.plant.workers.values())
        found = [(status, status.case) for status in (worker.status() for worker in workers)]
        for count in (field.name for field in fields(WatchCounts)):
            family = CounterMetricFamily(f"cgsa_{count}", COUNTS[count], labels=["machine"])
            for status, _ in found:
                family.add_metric([status.machine], getattr(status.counts, count))
            yield family
        overload = CounterMetricFamily(
            "cgsa_overload_refusals",
            "Blocks refused because too many waited or the journal could not be written",
            labels=["machine"],
        )
        waiting = GaugeMetricFamily("cgsa_waiting_seconds", "Signal waiting to be diagnosed", labels=["machine"])
        time = GaugeMetricFamily("cgsa_stream_time_seconds", "Time of the newest sample", labels=["machine"])
        problem = GaugeMetricFamily("cgsa_machine_problem", "1 if a person has to act", labels=["machine"])
        learning = GaugeMetricFamily("cgsa_learning", "1 for the state of learning", labels=["machine", "state"])
        level = GaugeMetricFamily(
            "cgsa_level", "Level over the newest batch; velocity in mm/s", labels=["machine", "channel", "quantity"]
        )
        running = GaugeMetricFamily("cgsa_running", "1 if the machine runs, 0 at standstill", labels=["machine"])
        run_time = CounterMetricFamily("cgsa_run_seconds", "Run time of the machine", labels=["machine"])
        expected = GaugeMetricFamily(
            "cgsa_next_measurement_seconds", "Stream time at which the next measurement is expected", labels=["machine"]
        )
        case = GaugeMetricFamily("cgsa_open_case", "1 if a case is open", labels=["machine", "severity", "state"])
        for status, newest in found:
            name = [status.machine]
            overload.add_metric(name, status.refused)
            waiting.add_metric(name, status.waiting)
            time.add_metric(name, status.now)
            problem.add_metric(name, float(status.problem is not None))
            report = None if status.diagnosis is None else status.diagnosis.levels
            for one in () if report is None else report.channels:
                for quantity in QUANTITIES:
                    value = getattr(one, quantity)
                    level.add_metric([*name, one.channel, quantity], math.nan if value is None else value)
            if status.operation is not None:
                running.add_metric(name, float(status.operation.state == "running"))
                run_time.add_metric(name, status.operation.run_seconds)
            if status.measurements is not None and status.measurements.next is not None:
                expected.add_metric(name, status.measurements.next)
            for state in LEARNING:
                learning.add_metric([*name, state], float(status.learning == state))
            for severity in SEVERITIES:
                present = newest is not None and newest.open and newest.severity == severity
                case.add_metric([*name, severity, status.standing if present else "normal"], float(present))
        yield from _monitoring([status for status, _ in found])
        yield from (overload, waiting, time, problem, learning, level, running, run_time, expected, case)

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._context.traffic
        yield GaugeMetricFamily("cgsa_connections", "Open connections", traffic.connections)
        yield GaugeMetricFamily("cgsa_held_connections", "Ended connections that are not closed yet", traffic.held)
        yield CounterMetricFamily(
            "cgsa_closed_connections", "Connections closed to make room, or because they were too slow", traffic.closed
        )
        refused = CounterMetricFamily(
            "cgsa_refused_requests", "Requests beyond the limit of an address, a token, ...", labels=["limit"]
        )
        for limit, count in traffic.refused.items():
            refused.add_metric([limit], count)
        yield refused

    def _store(self) -> Iterator[Metric]:
        store = self._context.plant.store
        yield GaugeMetricFamily("cgsa_store_problem", "1 if the store cannot be written", store.problem is not None)
        yield GaugeMetricFamily("cgsa_store_waiting", "Writes waiting", store.waiting)
        yield CounterMetricFamily("cgsa_store_lost", "Writes given up", store.lost)
        rows = GaugeMetricFamily("cgsa_store_rows", "Rows of a table", labels=["table"])
        size = GaugeMetricFamily("cgsa_store_bytes", "Bytes of a table's values", labels=["table"])
        try:
            with store.read() as snapshot:
                sizes = snapshot.sizes()
        except DataError:
            sizes = {}  # cgsa_store_problem shows it; all other metrics are still available
        for table, held in sizes.items():
            rows.add_metric([table], held.rows)
            size.add_metric([table], held.bytes)
        yield from (rows, size)


class MachineMetrics(CollectorRegistry):
    """The metrics of the machines that a person's token is valid for; those of the service are left out."""

    def __init__(self, whole: CollectorRegistry, person: Person) -> None:
        super().__init__()
        self._whole, self._person = whole, person

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        for family in self._whole.collect():
            kept = Metric(family.name, family.documentation, family.type, family.unit)
            kept.samples = [
                one for one in family.samples if "machine" in one.labels and self._person.covers(one.labels["machine"])
            ]
            if kept.samples:
                yield kept


def create_registry(context: ServiceContext, sources: Iterable[Link], sinks: Iterable[Link]) -> CollectorRegistry:
    """Return a registry with the metrics of a service and its process."""
    registry = CollectorRegistry()
    registry.register(ServiceMetrics(context, sources, sinks))
    ProcessCollector(registry=registry)
    return registry


def _monitoring(machines: Sequence[WorkerStatus]) -> Iterator[Metric]:
    """Return the metrics of whether machines are monitored, and what keeps them from it."""
    work = GaugeMetricFamily("cgsa_work", "1 for the state of the monitoring", labels=["machine", "state"])
    retrying = GaugeMetricFamily(
        "cgsa_retrying", "1 for a task that fails and is tried again", labels=["machine", "task", "cause"]
    )
    refused = GaugeMetricFamily(
        "cgsa_refused_run_blocks", "Blocks refused since the last one in use", labels=["machine"]
    )
    skew = GaugeMetricFamily(
        "cgsa_clock_skew_seconds", "Seconds by which the clock of the sender is ahead", labels=["machine"]
    )
    for status in machines:
        for state in get_args(WorkState):
            work.add_metric([status.machine, state], float(status.work == state))
        for failing in status.problems:
            retrying.add_metric([status.machine, failing.task, failing.cause], 1.0)
        refused.add_metric([status.machine], 0 if status.refused_run is None else status.refused_run.count)
        if status.clock_skew is not None:
            skew.add_metric([status.machine], status.clock_skew)
    yield from (work, retrying, refused, skew)


def _links(side: str, links: Iterable[Link]) -> Iterator[Metric]:
    """Return the metrics of sources or sinks."""
    state = GaugeMetricFamily(f"cgsa_{side}", f"1 for the current state of a {side}", labels=["name", "kind", "state"])
    counts = CounterMetricFamily(f"cgsa_{side}_events", f"Events of a {side}", labels=["name", "kind", "what"])
    for status in (link.status for link in links):
        for one in get_args(LinkState):
            state.add_metric([status.name, status.kind, one], float(status.state == one))
        for what, count in status.counts.items():
            counts.add_metric([status.name, status.kind, what], count)
    yield from (state, counts)
