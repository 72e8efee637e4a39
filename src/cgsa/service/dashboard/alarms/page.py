"""The page with the alarms of all machines, maintenance and receivers."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from cgsa.service.dashboard.alarms.alarm_list import AlarmList
from cgsa.service.dashboard.alarms.maintenance_card import MaintenanceCard
from cgsa.service.dashboard.alarms.sinks_card import SinksCard
from cgsa.service.dashboard.page_session import PageSession, open_session


async def alarms_page(request: Request) -> RedirectResponse | None:
    """Build the page."""
    session = await open_session(request)
    if not isinstance(session, PageSession):
        return session
    with session.build_frame("Alarms"):
        alarms = AlarmList(session)
        with ui.element("div").classes("two"):
            others = MaintenanceCard(session), SinksCard(session)

    async def refresh() -> None:
        # First what does not depend on the store, which may fail.
        for one in (*others, alarms):
            await one.refresh()

    session.refresh_every_second(refresh)
    return None
