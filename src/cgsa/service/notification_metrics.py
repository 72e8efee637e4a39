"""Metrics about notifications: what is on its way, what failed, what escalated, and maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cgsa.service.context import ServiceContext
from cgsa.service.sinks.delivery_log import NotificationState, summarise


def notification_metrics(context: ServiceContext) -> Iterator[Metric]:
    """Return the present values."""
    maintenance = GaugeMetricFamily("cgsa_maintenance", "1 if the machine is under maintenance", labels=["machine"])
    for machine in context.plant.workers:
        maintenance.add_metric([machine], float(context.calendar.until(machine) is not None))
    yield maintenance
    sinks = context.sinks
    if sinks is None:
        return
    waiting = GaugeMetricFamily(
        "cgsa_undelivered_notifications", "Notifications that a sink has not delivered", labels=["name", "state"]
    )
    counts = sinks.log.undelivered()
    for delivery in sinks.deliveries:
        for state in ("notifying", "held"):
            waiting.add_metric([delivery.status.name, state], counts[delivery.status.name, state])
    newest = GaugeMetricFamily(
        "cgsa_notification", "1 for what became of the newest notification of an open case", labels=["machine", "state"]
    )
    for tracked in sinks.log.newest():
        machine = tracked.notification.machine
        worker = context.plant.workers.get(machine)
        case = None if worker is None else worker.status().case
        if case is None or not case.open or case.number != tracked.notification.event["case"]["number"]:
            continue
        found = summarise(tuple(tracked.records.values()), context.escalation_steps).state
        for one in get_args(NotificationState):
            newest.add_metric([machine, one], float(one == found))
    escalations = CounterMetricFamily("cgsa_escalations", "Notifications that were passed on to a further sink")
    escalations.add_metric([], sinks.notifier.escalated)
    yield from (waiting, newest, escalations)
