"""The HTTP API: all data and commands of the service.

One file per subject. The description of all routes is at ``/api/openapi.json``; each names the role it needs under
``x-role``, and how it honours the machines of a token under ``x-scope``.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cgsa import __version__
from cgsa.service.api import (
    blocks,
    bulk,
    cases,
    commissioning,
    events,
    learning,
    machines,
    maintenance,
    people,
    sender,
    trends,
)
from cgsa.service.api.routing import needs, role_router
from cgsa.service.context import ServiceContext
from cgsa.service.errors import handle_errors
from cgsa.service.sessions import COOKIE

PATH = "/api"
ROUTERS = (
    # First, since its requests are by far the most frequent, and routes are tried one after the other.
    blocks.router,
    machines.router,
    cases.router,
    bulk.router,
    maintenance.router,
    trends.router,
    learning.router,
    commissioning.router,
    sender.router,
    people.router,
    events.router,
)
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token, such as cgsa.ann.Zx..."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


def create_api(context: ServiceContext) -> FastAPI:
    """Return the app behind ``/api``."""
    # Its own app, so that every path below it is answered in its error format.
    api = FastAPI(title="cgsa", version=__version__, redirect_slashes=False, openapi_url=None)
    api.state.context = context
    for router in ROUTERS:
        api.include_router(router)
    description = role_router()

    @description.get("/openapi.json", include_in_schema=False, **needs("any", scope="none"))
    def describe() -> dict[str, Any]:
        """Return the description of the API."""
        return describe_api(api)

    api.include_router(description)
    handle_errors(api)
    return api


def describe_api(api: FastAPI) -> dict[str, Any]:
    """Return the description of an API in the form of OpenAPI."""
    if api.openapi_schema is None:
        found = get_openapi(
            title=api.title,
            version=api.version,
            summary="Monitored machines: diagnoses, alarms, learning, and the samples behind them.",
            routes=api.routes,
            servers=[{"url": PATH}],
        )
        found.setdefault("components", {})["securitySchemes"] = SECURITY
        api.openapi_schema = found
    return api.openapi_schema
