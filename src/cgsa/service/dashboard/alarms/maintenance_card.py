"""Maintenance windows: those that last or come, and the dialog for a new one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from nicegui import ui

from cgsa.errors import CgsaError, DataError
from cgsa.live.store import MaintenanceWindow, Repeats
from cgsa.service.dashboard.actions import ask
from cgsa.service.dashboard.labels import format_time
from cgsa.service.dashboard.page_session import PageSession
from cgsa.service.dashboard.widgets import button, heading, scrolled_block, table_html
from cgsa.service.maintenance import Occurrence, visible
from cgsa.service.rights import Person

HEAD = ("No.", "Machines", "From", "To", "Repeats", "By", "Reason")
LENGTHS = {"1 hour": 3600.0, "2 hours": 7200.0, "8 hours": 28_800.0, "24 hours": 86_400.0, "7 days": 604_800.0}
REPEATS: Mapping[str, Repeats] = {"once": "once", "every day": "daily", "every week": "weekly"}
EXPLANATION = "In these times, alarms are recorded and notify nobody. At the end, those that are still active notify."


class MaintenanceCard:
    """The windows that concern the machines of a person."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        with ui.element("section").classes("card stack").props('aria-label="Maintenance"'):
            heading("Maintenance")
            ui.label(EXPLANATION).classes("muted")
            self._table = scrolled_block("Planned maintenance")
            self._empty = ui.label("No maintenance is planned").classes("empty")
            with ui.element("div").classes("line") as commands:
                button("Add a maintenance", self._add)
                self._end = button("End a maintenance", self._stop)
            commands.set_visibility(session.person.may("operator"))

    async def refresh(self) -> None:
        """Show the present windows."""
        rows = [_row(*one, self._session.zone) for one in self._upcoming()]
        self._table.set_content(table_html(HEAD, rows, numbers=(0,), wrapped=(1, 6)) if rows else "")
        self._empty.set_visibility(not rows)
        self._end.set_visibility(bool(rows))

    def _upcoming(self) -> list[tuple[MaintenanceWindow, Occurrence]]:
        session = self._session
        machines = session.context.plant.workers
        found = session.context.calendar.upcoming()
        return [one for one in found if visible(one[0], session.person, machines)]

    async def _add(self) -> None:
        zone = self._session.zone
        answer = await ask(
            "Add a maintenance",
            EXPLANATION,
            confirm="Add",
            text="Reason",
            required=True,
            fields=[("Machines", "such as press-1, press-*"), ("From", "now, or such as 2026-11-20 08:00")],
            lists=[("For", list(LENGTHS)), ("Repeats", list(REPEATS))],
        )
        if answer is None:
            return
        machines, begins = answer.fields

        def add(person: Person) -> None:
            begin = _read_time(begins, zone)
            self._session.context.calendar.add(
                person,
                tuple(machines.replace(",", " ").split()),
                begin,
                begin + LENGTHS[answer.chosen[0]],
                reason=answer.text,
                repeats=REPEATS[answer.chosen[1]],
                zone=zone.key if isinstance(zone, ZoneInfo) else "UTC",
            )

        details = {"machines": machines, "begin": begins or "now", "length": answer.chosen[0], "reason": answer.text}
        await self._change("add_maintenance", add, {**details, "repeats": answer.chosen[1]})

    async def _stop(self) -> None:
        found = [f"{window.number}: {', '.join(window.machines)}" for window, _ in self._upcoming()]
        if not found:
            return
        answer = await ask(
            "End a maintenance",
            "It ends now and for good; one that repeats does not come again. Alarms that are still active notify.",
            confirm="End",
            lists=[("Maintenance", found)],
        )
        if answer is not None:
            number = int(answer.chosen[0].partition(":")[0])
            calendar = self._session.context.calendar
            await self._change("end_maintenance", lambda person: calendar.end(number, person), {"number": number})

    async def _change(self, what: str, change: Callable[[Person], object], details: Mapping[str, object]) -> None:
        """Change the calendar as whoever holds the page now, and audit it."""
        context, request = self._session.context, self._session.request
        person = await asyncio.to_thread(context.authenticator.person_of, request)
        try:
            await asyncio.to_thread(change, context.authenticator.require(person, "operator"))
        except CgsaError as error:
            context.audit(request, person, what, error=error, details=details)
            ui.notify(str(error), type="negative", multi_line=True, close_button="OK", timeout=0)
            return
        context.audit(request, person, what, details=details)
        ui.notify("Done", type="positive")
        await self.refresh()


def _row(window: MaintenanceWindow, when: Occurrence, zone: tzinfo) -> tuple[str, ...]:
    now = time.time()
    begin = "now" if when.begin <= now else format_time(when.begin, zone, now)
    repeats = next(name for name, one in REPEATS.items() if one == window.repeats)
    machines = ", ".join(window.machines)
    return str(window.number), machines, begin, format_time(when.end, zone, now), repeats, window.who, window.reason


def _read_time(text: str, zone: tzinfo) -> float:
    """Return the time that a person entered, in their time zone; now if they entered none."""
    if not text.strip():
        return time.time()
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=zone).astimezone(UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise DataError(f"from {text[:64]!r}; expected a date and time such as 2026-11-20 08:00") from error
