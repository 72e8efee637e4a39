"""The page of one machine: its status, its alarms, and tabs with the evidence behind them."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from cgsa.service.dashboard.machine.alarm_panel import AlarmPanel
from cgsa.service.dashboard.machine.commissioning_panel import CommissioningPanel
from cgsa.service.dashboard.machine.comparison_panel import ComparisonPanel
from cgsa.service.dashboard.machine.explanation_panel import ExplanationPanel
from cgsa.service.dashboard.machine.history_panel import HistoryPanel
from cgsa.service.dashboard.machine.learning_panel import LearningPanel
from cgsa.service.dashboard.machine.levels_panel import LevelsPanel
from cgsa.service.dashboard.machine.monitoring_panel import MonitoringPanel
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.machine.signal_panel import SignalPanel
from cgsa.service.dashboard.machine.status_panel import StatusPanel
from cgsa.service.dashboard.machine.timeline_panel import TimelinePanel
from cgsa.service.dashboard.machine.trends_panel import TrendsPanel
from cgsa.service.dashboard.machine.windows_panel import WindowsPanel
from cgsa.service.dashboard.page_session import PageSession, open_session

TABS: dict[str, type[Panel]] = {
    "Timeline": TimelinePanel,
    "Trends": TrendsPanel,
    "Comparison": ComparisonPanel,
    "Signal": SignalPanel,
    "Explanation": ExplanationPanel,
    "Learning": LearningPanel,
    "Windows": WindowsPanel,
    "History": HistoryPanel,
}


async def machine_page(request: Request, name: str) -> RedirectResponse | None:
    """Build the page."""
    session = await open_session(request)
    if not isinstance(session, PageSession):
        return session
    ui.page_title(f"{name} · cgsa")
    with session.build_frame(name):
        if name in session.context.plant.workers and session.person.covers(name):
            _build_panels(session, name)
        else:
            with ui.element("div").classes("card"):
                ui.label(f"No machine {name} is monitored").classes("text")
                ui.link("All machines", "/").style("color: var(--accent)")
    return None


def _build_panels(session: PageSession, name: str) -> None:
    with ui.element("div").classes("two"):
        first: tuple[Panel, ...] = (StatusPanel(session, name), AlarmPanel(session, name))
    always = (*first, MonitoringPanel(session, name), CommissioningPanel(session, name), LevelsPanel(session, name))
    panels: dict[str, Panel] = {}
    with ui.tabs().props("dense align=left outside-arrows mobile-arrows") as tabs:
        for title in TABS:
            ui.tab(title)
    # Hidden panels keep their content, and nothing is read for them.
    with ui.tab_panels(tabs, value="Timeline").props("keep-alive"):
        for title, panel in TABS.items():
            with ui.tab_panel(title):
                panels[title] = panel(session, name)

    async def refresh() -> None:
        for panel in (*always, panels[str(tabs.value)]):
            await panel.refresh()

    tabs.on_value_change(refresh)
    session.refresh_every_second(refresh)
