"""The whole service as one app: API, pages, figures, and the sources and sinks that live as long as it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Protocol

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from cgsa import __version__
from cgsa.live.plant import Plant
from cgsa.service import health, login
from cgsa.service.api import PATH, create_api
from cgsa.service.auth import Authenticator
from cgsa.service.context import ServiceContext
from cgsa.service.errors import handle_errors
from cgsa.service.limits import BodyLimit, RateLimit, RequestLimits, SecurityHeaders
from cgsa.service.metrics import Linked, LinkStatus, create_registry

_log = logging.getLogger(__name__)


class Runs(Protocol):
    """Something that works while the service does."""

    async def run(self) -> None:
        """Work until it is cancelled; it looks after its own failures."""


class Source(Runs, Linked, Protocol):
    """Hands blocks to the plant."""


class Sinks(Runs, Protocol):
    """Tell the world of alarms."""

    @property
    def statuses(self) -> Sequence[LinkStatus]:
        """How each of them stands."""

    def close(self) -> None:
        """Hear no more."""


def create_app(
    plant: Plant,
    guard: Authenticator,
    *,
    sources: Sequence[Source] = (),
    sinks: Sinks | None = None,
    limits: RequestLimits | None = None,
    runs_plant: bool = True,
    dashboard: bool = True,
) -> FastAPI:
    """Return the app of a service.

    Parameters
    ----------
    plant
        The machines; not started yet, unless ``runs_plant`` says otherwise.
    guard
        Who may do what.
    sources
        Run from start to end.
    sinks
        Run from start to end, and closed when nothing more can happen.
    limits
        Bounds on what comes in.
    runs_plant
        Whether the app starts and stops the plant.
    dashboard
        Whether there are pages; where what they need is not installed, there are none.
    """
    bounds = limits or RequestLimits()
    parts = ServiceContext.of(plant, guard, bounds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if sinks is not None:
                stack.callback(sinks.close)
            if runs_plant:
                await run_in_threadpool(plant.start)
                stack.push_async_callback(run_in_threadpool, plant.stop)
            await stack.enter_async_context(_running(sources if sinks is None else (*sources, sinks)))
            stack.callback(parts.feed.close)
            yield

    app = FastAPI(
        title="cgsa",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.parts, app.state.guard = parts, guard
    app.mount(PATH, create_api(parts))
    app.include_router(health.router)
    app.include_router(health.metrics_router(create_registry(parts, sources, sinks)))
    app.include_router(login.router)
    handle_errors(app)
    # The last one added is the first that a request meets.
    app.add_middleware(BodyLimit, limits=bounds)
    app.add_middleware(RateLimit, limits=bounds)
    app.add_middleware(SecurityHeaders)
    if dashboard:
        _mount_dashboard(app, plant, guard)
    return app


@asynccontextmanager
async def _running(everything: Sequence[Runs]) -> AsyncIterator[None]:
    """Run things until the end."""
    tasks = [asyncio.create_task(one.run(), name=type(one).__name__) for one in everything]
    for task in tasks:
        task.add_done_callback(_tell_end)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("%s ended", task.get_name(), exc_info=task.exception())


def _mount_dashboard(app: FastAPI, plant: Plant, guard: Authenticator) -> None:
    """Put the pages at ``/``, where what they need is installed."""
    try:
        pages = import_module("cgsa.service.dashboard")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "cgsa":
            raise
        _log.warning("no dashboard: %s is missing; pip install 'cgsa[serve]' brings it", error.name)
        return
    pages.mount(app, plant, guard)
