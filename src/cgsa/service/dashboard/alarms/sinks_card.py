"""The receivers of alarms: whether they can be reached, and what they have not delivered yet."""

from __future__ import annotations

import time

from nicegui import ui

from cgsa.service.dashboard.alarms.texts import describe_sink
from cgsa.service.dashboard.page_session import PageSession
from cgsa.service.dashboard.widgets import heading, scrolled_block, table_html

HEAD = ("Receiver", "Condition")
NONE = "No receiver is set up, so alarms notify nobody; add [[sinks]] to the configuration"


class SinksCard:
    """The receivers; they belong to all machines, so whoever sees only some of them does not see it."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        with ui.element("section").classes("card stack").props('aria-label="Receivers"') as card:
            heading("Receivers")
            self._table = scrolled_block("Receivers of alarms")
            self._empty = ui.label(NONE).classes("empty")
        card.set_visibility(not session.person.machines)

    async def refresh(self) -> None:
        """Show the present condition."""
        sinks = self._session.context.sinks
        rows: list[tuple[str, str]] = []
        if sinks is not None and not self._session.person.machines:
            waiting, steps = sinks.log.undelivered(), sinks.escalation.steps
            rows = [
                describe_sink(status, waiting[status.name, "notifying"], steps, self._session.zone, time.time())
                for status in (one.status for one in sinks.deliveries)
            ]
        self._table.set_content(table_html(HEAD, rows, wrapped=(1,)) if rows else "")
        self._empty.set_visibility(not rows)
