"""Who is told of alarms: one file a sink."""

from __future__ import annotations

from cgsa.service.sinks.base import Line, RefusedLetterError, Sink
from cgsa.service.sinks.delivery import Delivery, Patience
from cgsa.service.sinks.outbox import Letter, Outbox
from cgsa.service.sinks.sinks import SINKS, Sinks

__all__ = ["SINKS", "Delivery", "Letter", "Line", "Outbox", "Patience", "RefusedLetterError", "Sink", "Sinks"]
