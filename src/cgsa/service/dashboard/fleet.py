"""The first page: all machines, the one to look at first on top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.activity import KEPT_SECONDS, fault_probability
from cgsa.service.dashboard.charts import spark
from cgsa.service.dashboard.page_session import PageSession, enter
from cgsa.service.dashboard.summary import MOODS, Mood, Summary
from cgsa.service.dashboard.widgets import Badge, block, button

PAGE = 60
"""Machines that are shown before somebody asks for more."""
_HEAD = ("State", "Machine", "Verdict", "P(fault)", "Last 5 min", "Trust", "Learning")


async def fleet_page(request: Request) -> RedirectResponse | None:
    """Draw the page."""
    visit = await enter(request)
    if not isinstance(visit, PageSession):
        return visit
    with visit.build_frame("Machines"):
        fleet = MachineList(visit)
    visit.every_second(fleet.refresh)
    return None


class MachineList:
    """The list of machines in one browser.

    Parameters
    ----------
    visit
        Whose browser it is.
    """

    def __init__(self, visit: PageSession) -> None:
        self._visit = visit
        self._mood: Mood | None = None
        self._shown = PAGE
        self._rows: dict[str, _Row] = {}
        self._order: tuple[str, ...] = ()
        with ui.element("div").classes("spread"):
            with ui.element("div").classes("tallies").props('role=group aria-label="Show only"'):
                self._tallies = {mood: self._tally(mood) for mood in (None, *MOODS)}
            self._search = ui.input(placeholder="Find a machine", on_change=self.refresh)
            self._search.props('dense outlined clearable type=search aria-label="Find a machine"')
        with ui.element("div").classes("card entries"):
            with ui.element("div").classes("entry-head").props("aria-hidden=true"):
                for name in _HEAD:
                    ui.label(name)
            self._list = ui.element("div").style("display: contents")
            self._empty = ui.label("Looking at the machines …").classes("empty")
        self._more = button("", self._show_more)
        self._more.set_visibility(False)

    async def refresh(self) -> None:
        """Show how the machines stand now."""
        machines = await self._visit.context.view.fleet()
        self._count(machines)
        sought = (self._search.value or "").lower().split()
        found = [
            one
            for one in machines
            if self._mood in {None, one.mood} and all(word in one.machine.lower() for word in sought)
        ]
        self._show(found[: self._shown])
        left = len(found) - self._shown
        self._more.set_visibility(left > 0)
        self._more.set_text(f"Show {min(PAGE, max(0, left))} more of {max(0, left)}")
        self._empty.set_visibility(not found)
        self._empty.set_text(
            "No machine is like that just now"
            if machines
            else "No machine is watched yet; add one to the settings of cgsa serve"
        )

    def _tally(self, mood: Mood | None) -> ui.button:
        return ui.button("", color=None, on_click=lambda: self._choose(mood)).props("flat no-caps dense")

    async def _choose(self, mood: Mood | None) -> None:
        self._mood = None if mood == self._mood else mood
        self._shown = PAGE
        await self.refresh()

    async def _show_more(self) -> None:
        self._shown += PAGE
        await self.refresh()

    def _count(self, machines: Sequence[Summary]) -> None:
        counts = Counter(one.mood for one in machines)
        for mood, tally in self._tallies.items():
            number = len(machines) if mood is None else counts[mood]
            tally.set_text(f"{'All' if mood is None else words.MOOD_WORDS[mood]} {number}")
            tally.set_visibility(mood in {None, self._mood} or number > 0)
            tally.props(f"aria-pressed={'true' if mood == self._mood else 'false'}")

    def _show(self, found: Sequence[Summary]) -> None:
        for one in found:
            if one.machine not in self._rows:
                with self._list:
                    self._rows[one.machine] = _Row(one.machine)
            self._rows[one.machine].show(one, self._visit)
        order = tuple(one.machine for one in found)
        if order != self._order:
            for place, machine in enumerate(order):
                self._rows[machine].link.move(self._list, place)
            for machine, row in self._rows.items():
                row.link.set_visibility(machine in order)
            self._order = order


class _Row:
    """One machine of the list."""

    def __init__(self, machine: str) -> None:
        with ui.link(target=f"/machine/{quote(machine)}").classes("entry") as self.link:
            self._badge = Badge("a-badge")
            ui.label(machine).classes("name a-name")
            with ui.element("div").classes("a-verdict"):
                self._verdict = ui.label().classes("cut")
                self._since = ui.label().classes("small cut")
            self._fault = ui.label().classes("a-p")
            self._spark = block("spark a-spark")
            with ui.element("div").classes("a-trust"):
                self._trust = ui.label().classes("cut")
            with ui.element("div").classes("a-learning"):
                self._learning = ui.label().classes("cut")
                self._data = ui.label().classes("small")

    def show(self, one: Summary, visit: PageSession) -> None:
        """Show how the machine stands."""
        told = one.status.diagnosis
        fault = None if told is None or one.silent else fault_probability(told)
        self._badge.show(one.mood)
        self._verdict.set_text(words.verdict(one))
        self._since.set_text(words.since(one, visit.zone))
        self._fault.set_text(words.NONE if fault is None else words.percent(fault))
        self._spark.set_content(spark(one.heard.beats, one.status.now, KEPT_SECONDS))
        self._trust.set_text(words.trust(one))
        self._learning.set_text(words.learning_in_short(one.status))
        self._data.set_text(words.data(one) or "")
