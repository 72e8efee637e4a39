"""The list of alarms: filters, pages, and commands about the selected ones."""

from __future__ import annotations

import time
from collections.abc import Mapping

from nicegui import ui

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, REFUSED
from cgsa.live.alarms import SEVERITIES
from cgsa.live.store import CaseFilter, RowSelection
from cgsa.service.bulk_commands import BulkName, CaseOutcome, send_to_cases
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.actions import ask, may_send
from cgsa.service.dashboard.alarms.case_rows import HEAD, CaseRows
from cgsa.service.dashboard.machine.alarm_panel import SHELVINGS
from cgsa.service.dashboard.page_session import PageSession
from cgsa.service.dashboard.widgets import button

PAGE = 50
"""Cases per page."""
STATES: Mapping[str, CaseFilter] = {
    "Open": CaseFilter(only_open=True),
    "Unacknowledged": CaseFilter(only_open=True, acknowledged=False),
    "Acknowledged": CaseFilter(only_open=True, acknowledged=True),
    "Cleared": CaseFilter(states=("cleared",)),
    "Shelved": CaseFilter(states=("shelved",)),
    "Closed": CaseFilter(states=("closed",)),
    "All": CaseFilter(),
}
PERIODS = {"Any time": None, "Last 24 hours": 86_400.0, "Last 7 days": 604_800.0, "Last 30 days": 2_592_000.0}
ANY_SEVERITY, ANY_ALARM = "Any severity", "Any alarm"
LOADING = "Loading the alarms …"


class AlarmList:
    """The list in one browser."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._cursors: list[str | None] = [None]
        """Where each page up to the present one begins."""
        self._following: str | None = None
        selectable = may_send(session, "acknowledge")
        with ui.element("div").classes("card stack"):
            with ui.element("div").classes("line alarm-filters"):
                self._state = self._choice("State", list(STATES))
                self._severity = self._choice("Severity", [ANY_SEVERITY, *reversed(SEVERITIES)])
                self._fault = self._choice("Alarm", [ANY_ALARM, *self._classes()])
                self._period = self._choice("Opened", list(PERIODS))
                self._machine = ui.input("Machine, such as press-*", on_change=self._filter).style("width: 210px")
                self._machine.props("dense outlined clearable debounce=400")
            with ui.element("div").classes("line") as self._commands:
                self._chosen = ui.label().classes("muted")
                self._all = button("Select all shown", self._select_all)
                button("Acknowledge", self._acknowledge, first=True)
                button("Shelve", self._shelve)
            self._commands.set_visibility(selectable)
        with ui.element("div").classes("card entries"):
            with (
                ui.element("div").classes(f"alarm-head {'selectable' if selectable else ''}").props("aria-hidden=true")
            ):
                for name in HEAD:
                    ui.label(name)
            self._rows = CaseRows(self._show_selection, selectable=selectable)
            self._empty = ui.label(LOADING).classes("empty").props("role=status")
        with ui.element("div").classes("line"):
            self._newer = button("Newer", self._go_newer)
            self._older = button("Older", self._go_older)
            self._page = ui.label().classes("muted")
        for one in (self._newer, self._older):
            one.set_visibility(False)
        self._show_selection()

    async def refresh(self) -> None:
        """Show the newest data."""
        session, now = self._session, time.time()
        seconds = PERIODS[str(self._period.value)]
        pick = RowSelection(
            # Whole minutes, so that the rows of all browsers with the same filters are read once.
            begin=0.0 if seconds is None else now // 60 * 60 - seconds,
            after=self._cursors[-1],
            limit=PAGE,
            machines=session.person.machines,
        )
        page = await session.context.view.cases(self._wanted(), pick, session.context.escalation_steps)
        self._following = page.cursor if page.more else None
        self._rows.show(page.rows, session.zone, now)
        self._empty.set_visibility(not page.rows)
        self._empty.set_text("No alarm matches; choose another state or period")
        self._newer.set_visibility(len(self._cursors) > 1)
        self._older.set_visibility(page.more)
        self._page.set_text(f"page {len(self._cursors)}" if page.more or len(self._cursors) > 1 else "")

    def _choice(self, name: str, options: list[str]) -> ui.select:
        found = ui.select(options, value=options[0], label=name, on_change=self._filter)
        return found.props("dense outlined options-dense").style("min-width: 150px")

    def _classes(self) -> list[str]:
        """Return the faults that the machines of this person may have."""
        session = self._session
        workers = [one for name, one in session.context.plant.workers.items() if session.person.covers(name)]
        known = {name for one in workers for name in one.manifest.classes[1:]}
        return [*sorted(known), UNKNOWN, NO_DATA, REFUSED]

    def _wanted(self) -> CaseFilter:
        state = STATES[str(self._state.value)]
        severity, fault = str(self._severity.value), str(self._fault.value)
        text = "".join(one for one in str(self._machine.value or "") if one.isalnum() or one in "._-*?")
        machine = text if {"*", "?"} & set(text) else f"*{text}*"
        return CaseFilter(
            only_open=state.only_open,
            states=state.states,
            severities=tuple(one for one in SEVERITIES if one == severity),
            fault=None if fault == ANY_ALARM else fault,
            machine=machine if text else None,
            acknowledged=state.acknowledged,
        )

    async def _filter(self) -> None:
        self._cursors = [None]
        await self.refresh()

    async def _go_older(self) -> None:
        if self._following is not None:
            self._cursors.append(self._following)
        await self.refresh()

    async def _go_newer(self) -> None:
        self._cursors = self._cursors[:-1] or [None]
        await self.refresh()

    def _show_selection(self) -> None:
        count = len(self._rows.selected)
        self._chosen.set_text(f"{count} selected" if count else "Select alarms to acknowledge or shelve them together")

    async def _select_all(self) -> None:
        self._rows.select_all(chosen=not self._rows.selected)

    async def _acknowledge(self) -> None:
        # As they were seen when the person chose the command.
        cases = sorted(self._rows.selected)
        if not cases:
            ui.notify("Select alarms first", type="warning")
            return
        answer = await ask(
            f"Acknowledge {_count(len(cases))}",
            f"You take responsibility for {_names(cases)}.",
            confirm="Acknowledge",
            text="Remark",
        )
        if answer:
            await self._send("acknowledge", cases, answer.text)

    async def _shelve(self) -> None:
        cases = sorted(self._rows.selected)
        if not cases:
            ui.notify("Select alarms first", type="warning")
            return
        answer = await ask(
            f"Shelve {_count(len(cases))}",
            f"{labels.capitalise(_names(cases))} send no notifications until the time is over, unless a more severe "
            "fault joins.",
            confirm="Shelve",
            text="Reason",
            required=True,
            lists=[("For", list(SHELVINGS))],
        )
        if answer:
            await self._send("shelve", cases, answer.text, seconds=SHELVINGS[answer.chosen[0]])

    async def _send(self, name: BulkName, cases: list[tuple[str, int]], text: str, **details: object) -> None:
        session = self._session
        found = await send_to_cases(session.context, session.request, name, cases, text, **details)
        _show_outcome(found)
        self._rows.select_all(chosen=False)
        await self.refresh()


def _count(number: int) -> str:
    return "the alarm" if number == 1 else f"{number} alarms"


def _names(cases: list[tuple[str, int]]) -> str:
    """Return which cases a command is about; of many, the first ones."""
    named = [f"case {number} of {machine}" for machine, number in cases[:5]]
    return ", ".join(named) + (f" and {len(cases) - 5} more" if len(cases) > 5 else "")


def _show_outcome(found: list[CaseOutcome]) -> None:
    """Show what became of a command."""
    refused = [one.refused for one in found if one.refused is not None]
    if not refused:
        ui.notify(f"Done for {_count(len(found))}", type="positive")
        return
    text = f"{len(found) - len(refused)} done, {len(refused)} refused: {'; '.join(refused[:5])}"
    ui.notify(text, type="negative", multi_line=True, close_button="OK", timeout=0)
