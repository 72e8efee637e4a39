"""Receivers of alarms: one file per type of sink."""

from __future__ import annotations

from cgsa.service.sinks.alarm_sinks import SINKS, AlarmSinks
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.delivery import Delivery, RetryPolicy
from cgsa.service.sinks.escalation import EscalationConfig
from cgsa.service.sinks.outbox import Notification, Outbox

__all__ = [
    "SINKS",
    "AlarmSinks",
    "Delivery",
    "EscalationConfig",
    "Notification",
    "Outbox",
    "RefusedNotificationError",
    "RetryPolicy",
    "Sink",
    "SinkConnection",
]
