"""How the pages hang in an app of somebody else.

NiceGUI keeps its pages in one app for the whole process. It is set up once, and
every service that mounts the dashboard gets a door to it. Who comes through a
door brings the service along that it belongs to, so several may live in one
process. Only what belongs to the pages goes through: all other paths stay the
app's own, with its own answers to what it does not know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from cgsa.service.context import ServiceContext
from cgsa.service.dashboard.fleet import fleet_page
from cgsa.service.dashboard.machine.page import machine_page
from cgsa.service.dashboard.page_session import KEY
from cgsa.service.dashboard.theme import FAVICON

OWN = ("/machine/", "/_nicegui/", "/_nicegui_ws/")
"""Paths that begin with these are the dashboard's, and ``/`` itself."""
RECONNECT_SECONDS = 15.0
"""How long a page waits for a browser that lost its connection, as phones do."""


class PageRouter(BaseRoute):
    """Lets what belongs to the pages of one service through to them."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for the pages."""
        own = scope["type"] in {"http", "websocket"} and is_own(scope["path"])
        return (Match.FULL if own else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the pages."""
        scope[KEY] = self._context
        await pages(scope, receive, send)


def is_own(path: str) -> bool:
    """Return whether a path belongs to the dashboard."""
    return path == "/" or path.startswith(OWN)


def mount_pages(app: FastAPI, context: ServiceContext) -> None:
    """Serve the pages of a service at ``/`` and ``/machine/{name}``, after all routes that its app has already."""
    _set_up()
    app.router.routes.append(PageRouter(context))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(whole: FastAPI) -> AsyncIterator[Any]:
        async with pages.router.lifespan_context(pages), inner(whole) as state:
            stop = context.view.listen()
            try:
                yield state
            finally:
                stop()

    app.router.lifespan_context = lifespan


@cache
def _set_up() -> None:
    """Set the pages up, once in a process."""
    ui.page("/", title="Machines · cgsa")(fleet_page)
    ui.page("/machine/{name}")(machine_page)
    ui.run_with(
        # They must believe to run with some app; the doors are ours.
        FastAPI(openapi_url=None),
        title="cgsa",
        favicon=FAVICON,
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=RECONNECT_SECONDS,
        # The style sheet is ours, and a script that makes one in the browser only costs time.
        tailwind=False,
        show_welcome_message=False,
    )
