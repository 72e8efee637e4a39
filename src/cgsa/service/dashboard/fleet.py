"""The start page: all machines, those that need attention first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from cgsa.service.dashboard import labels
from cgsa.service.dashboard.activity import KEPT_SECONDS, fault_probability
from cgsa.service.dashboard.charts import sparkline
from cgsa.service.dashboard.page_session import PageSession, open_session
from cgsa.service.dashboard.summary import DISPLAY_STATUSES, DisplayStatus, MachineSummary
from cgsa.service.dashboard.widgets import Badge, button, html_block

PAGE = 60
"""Machines shown at first, and added by each click on the button for more."""
SORTS: Mapping[str, Callable[[MachineSummary], tuple[Any, ...]]] = {
    "Most urgent first": lambda one: one.rank,
    "By name": lambda one: (one.machine,),
    "Least trusted first": lambda one: (one.trust is None, one.trust, one.machine),
    "Most behind first": lambda one: (-one.status.waiting, one.machine),
}
"""Orders of the list; the first is the one at the start."""
_HEAD = ("Status", "Machine", "Verdict", "P(fault)", "Last 5 min", "Trust", "Learning")


async def fleet_page(request: Request) -> RedirectResponse | None:
    """Build the page."""
    session = await open_session(request)
    if not isinstance(session, PageSession):
        return session
    with session.build_frame("Machines"):
        fleet = MachineList(session)
    session.refresh_every_second(fleet.refresh)
    return None


class MachineList:
    """The list of machines in one browser."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._filter: DisplayStatus | None = None
        self._shown = PAGE
        self._rows: dict[str, _MachineRow] = {}
        self._order: tuple[str, ...] = ()
        with ui.element("div").classes("spread"):
            with ui.element("div").classes("filters").props('role=group aria-label="Filter by status"'):
                self._filters = {status: self._filter_button(status) for status in (None, *DISPLAY_STATUSES)}
            with ui.element("div").style("display: flex; flex-wrap: wrap; gap: 8px"):
                self._sort = ui.select(list(SORTS), value=next(iter(SORTS)), label="Order", on_change=self.refresh)
                self._sort.props("dense outlined options-dense").style("min-width: 170px")
                self._search = ui.input(placeholder="Find a machine", on_change=self.refresh)
                self._search.props('dense outlined clearable type=search aria-label="Find a machine"')
        with ui.element("div").classes("card entries"):
            with ui.element("div").classes("entry-head").props("aria-hidden=true"):
                for name in _HEAD:
                    ui.label(name)
            self._list = ui.element("div").style("display: contents")
            self._empty = ui.label("Loading the machines …").classes("empty")
        self._more = button("", self._show_more)
        self._more.set_visibility(False)

    async def refresh(self) -> None:
        """Show the present status of the machines."""
        covers = self._session.person.covers
        machines = [one for one in await self._session.context.view.fleet() if covers(one.machine)]
        self._update_filters(machines)
        terms = (self._search.value or "").lower().split()
        found = [
            one
            for one in machines
            if self._filter in {None, one.display_status} and all(term in one.machine.lower() for term in terms)
        ]
        found.sort(key=SORTS[str(self._sort.value)])
        self._show(found[: self._shown])
        left = len(found) - self._shown
        self._more.set_visibility(left > 0)
        self._more.set_text(f"Show {min(PAGE, max(0, left))} more of {max(0, left)}")
        self._empty.set_visibility(not found)
        self._empty.set_text(
            "No machine matches" if machines else "No machine is monitored yet; add one to the configuration"
        )

    def _filter_button(self, status: DisplayStatus | None) -> ui.button:
        return ui.button("", color=None, on_click=lambda: self._set_filter(status)).props("flat no-caps dense")

    async def _set_filter(self, status: DisplayStatus | None) -> None:
        self._filter = None if status == self._filter else status
        self._shown = PAGE
        await self.refresh()

    async def _show_more(self) -> None:
        self._shown += PAGE
        await self.refresh()

    def _update_filters(self, machines: Sequence[MachineSummary]) -> None:
        counts = Counter(one.display_status for one in machines)
        for status, choice in self._filters.items():
            count = len(machines) if status is None else counts[status]
            choice.set_text(f"{'All' if status is None else labels.STATUS_LABELS[status]} {count}")
            choice.set_visibility(status in {None, self._filter} or count > 0)
            choice.props(f"aria-pressed={'true' if status == self._filter else 'false'}")

    def _show(self, found: Sequence[MachineSummary]) -> None:
        for one in found:
            if one.machine not in self._rows:
                with self._list:
                    self._rows[one.machine] = _MachineRow(one.machine)
            self._rows[one.machine].show(one, self._session)
        order = tuple(one.machine for one in found)
        if order != self._order:
            for index, machine in enumerate(order):
                self._rows[machine].link.move(self._list, index)
            for machine, row in self._rows.items():
                row.link.set_visibility(machine in order)
            self._order = order


class _MachineRow:
    """One machine in the list."""

    def __init__(self, machine: str) -> None:
        with ui.link(target=f"/machine/{quote(machine)}").classes("entry") as self.link:
            self._badge = Badge("a-badge")
            ui.label(machine).classes("name a-name")
            with ui.element("div").classes("a-verdict"):
                self._verdict = ui.label().classes("cut")
                self._since = ui.label().classes("small cut")
            self._fault = ui.label().classes("a-p")
            self._sparkline = html_block("spark a-spark")
            with ui.element("div").classes("a-trust"):
                self._trust = ui.label().classes("cut")
            with ui.element("div").classes("a-learning"):
                self._learning = ui.label().classes("cut")
                self._data = ui.label().classes("small")

    def show(self, one: MachineSummary, session: PageSession) -> None:
        """Show the present status of the machine."""
        diagnosis = one.status.diagnosis
        fault = None if diagnosis is None or one.silent else fault_probability(diagnosis)
        self._badge.show(one.display_status)
        self._verdict.set_text(labels.describe_verdict(one))
        self._since.set_text(labels.describe_since(one, session.zone))
        self._fault.set_text(labels.MISSING if fault is None else labels.format_percent(fault))
        self._sparkline.set_content(sparkline(one.activity.history, one.status.now, KEPT_SECONDS))
        self._trust.set_text(labels.describe_trust(one))
        self._learning.set_text(labels.learning_label(one.status))
        self._data.set_text(labels.describe_data_problem(one) or labels.describe_measurements(one) or "")
