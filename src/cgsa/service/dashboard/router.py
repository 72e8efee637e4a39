"""Serves the pages of the dashboard from the app of a service.

NiceGUI keeps its pages in one app for the whole process. It is set up once, and every service that mounts the
dashboard routes requests to it. Each request carries the context of its own service, so several services can run in
one process. Only requests for pages are routed: all other paths stay with the app of the service, including its
answers to unknown paths.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from cgsa.service.context import ServiceContext
from cgsa.service.dashboard.alarms.page import alarms_page
from cgsa.service.dashboard.fleet import fleet_page
from cgsa.service.dashboard.machine.page import machine_page
from cgsa.service.dashboard.page_session import CONTEXT_KEY
from cgsa.service.dashboard.policy import PolicySender
from cgsa.service.dashboard.theme import FAVICON
from cgsa.service.errors import error_response
from cgsa.service.middleware import PERSON_KEY

PART_PREFIXES = ("/_nicegui/", "/_nicegui_ws/")
"""Paths of what pages consist of, for those who are logged in; pages themselves lead to the login."""
PAGE_PREFIXES = ("/machine/", *PART_PREFIXES)
"""Paths that begin with these belong to the dashboard..."""
PAGES = ("/", "/alarms")
"""...and so do these."""
RECONNECT_SECONDS = 15.0
"""How long a page waits for a browser that has lost its connection, as phones do."""


class PageRouter(BaseRoute):
    """Routes requests for the pages of one service to NiceGUI."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for a page."""
        own = scope["type"] in {"http", "websocket"} and is_page_path(scope["path"])
        return (Match.FULL if own else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to NiceGUI."""
        if scope["path"].startswith(PART_PREFIXES) and scope.get(PERSON_KEY) is None:
            await error_response(401, "log in at /login")(scope, receive, send)
            return
        scope[CONTEXT_KEY] = self._context
        await _compressed_pages(scope, receive, send)


async def _serve_pages(scope: Scope, receive: Receive, send: Send) -> None:
    await pages(scope, receive, PolicySender(send) if scope["type"] == "http" else send)


# Around the policy, which names the scripts in a page by their hashes and so must see it as it is.
_compressed_pages = GZipMiddleware(_serve_pages)


def is_page_path(path: str) -> bool:
    """Return whether a path belongs to the dashboard."""
    return path in PAGES or path.startswith(PAGE_PREFIXES)


def mount_pages(app: FastAPI, context: ServiceContext) -> None:
    """Serve the pages of a service after all routes that its app already has."""
    _register_pages()
    app.router.routes.append(PageRouter(context))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(whole: FastAPI) -> AsyncIterator[Any]:
        async with pages.router.lifespan_context(pages), inner(whole) as state:
            unsubscribe = context.view.subscribe()
            try:
                yield state
            finally:
                unsubscribe()

    app.router.lifespan_context = lifespan


@cache
def _register_pages() -> None:
    """Register the pages with NiceGUI, once per process."""
    # Data come by push, so a bar of requests shows nothing; screen readers would find it without a name.
    pages.config.quasar_config["loadingBar"]["skipHijack"] = True
    ui.page("/", title="Machines · cgsa")(fleet_page)
    ui.page("/alarms", title="Alarms · cgsa")(alarms_page)
    ui.page("/machine/{name}")(machine_page)
    ui.run_with(
        # NiceGUI needs an app to mount itself on; requests reach it through PageRouter instead.
        FastAPI(openapi_url=None),
        title="cgsa",
        favicon=FAVICON,
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        gzip_middleware_factory=None,
        reconnect_timeout=RECONNECT_SECONDS,
        # The pages have a style sheet of their own; generating one in the browser would only take time.
        tailwind=False,
        show_welcome_message=False,
    )
