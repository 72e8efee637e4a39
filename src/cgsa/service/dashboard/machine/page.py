"""The page of one machine: how it stands, its alarms, and behind tabs all that this rests on."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from cgsa.errors import DataError
from cgsa.service.dashboard.machine.alarm_panel import AlarmPanel
from cgsa.service.dashboard.machine.history_panel import HistoryPanel
from cgsa.service.dashboard.machine.learning_panel import LearningPanel
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.machine.signal_panel import SignalPanel
from cgsa.service.dashboard.machine.status_panel import StatusPanel
from cgsa.service.dashboard.machine.timeline_panel import TimelinePanel
from cgsa.service.dashboard.machine.windows_panel import WindowsPanel
from cgsa.service.dashboard.page_session import PageSession, enter

TABS: dict[str, type[Panel]] = {
    "Course": TimelinePanel,
    "Signal": SignalPanel,
    "Learning": LearningPanel,
    "Windows": WindowsPanel,
    "History": HistoryPanel,
}


async def machine_page(request: Request, name: str) -> RedirectResponse | None:
    """Draw the page."""
    visit = await enter(request)
    if not isinstance(visit, PageSession):
        return visit
    ui.page_title(f"{name} · cgsa")
    with visit.build_frame(name) as content:
        try:
            visit.context.plant.worker(name)
        except DataError:
            _say_there_is_none(name)
            return None
    with content:
        _build(visit, name)
    return None


def _build(visit: PageSession, name: str) -> None:
    with ui.element("div").classes("two"):
        always: tuple[Panel, ...] = (StatusPanel(visit, name), AlarmPanel(visit, name))
    panels: dict[str, Panel] = {}
    with ui.tabs().props("dense align=left outside-arrows mobile-arrows") as tabs:
        for title in TABS:
            ui.tab(title)
    # Panels that are not seen stay as they are, and nothing is read for them.
    with ui.tab_panels(tabs, value="Course").props("keep-alive"):
        for title, panel in TABS.items():
            with ui.tab_panel(title):
                panels[title] = panel(visit, name)

    async def refresh() -> None:
        for panel in (*always, panels[str(tabs.value)]):
            await panel.refresh()

    tabs.on_value_change(refresh)
    visit.every_second(refresh)


def _say_there_is_none(name: str) -> None:
    with ui.element("div").classes("card"):
        ui.label(f"No machine {name} is watched").classes("text")
        ui.link("All machines", "/").style("color: var(--accent)")
