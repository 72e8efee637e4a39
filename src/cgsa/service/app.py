"""The whole service as one app: API, pages, metrics, and the sources and sinks that run with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from cgsa import __version__
from cgsa.live.monitored import MonitoredPlant
from cgsa.service import health, login
from cgsa.service.api import PATH, create_api
from cgsa.service.auth import Authenticator
from cgsa.service.context import ServiceContext
from cgsa.service.errors import handle_errors
from cgsa.service.limits import RequestLimits
from cgsa.service.maintenance import MaintenanceCalendar
from cgsa.service.metrics import create_registry
from cgsa.service.middleware import BodyLimit, RateLimit, SecurityHeaders
from cgsa.service.refusal_log import RefusalLog
from cgsa.service.sinks import AlarmSinks
from cgsa.service.sources.base import Source
from cgsa.service.sources.running import RunningSources

if TYPE_CHECKING:
    from cgsa.service.oidc.client import OidcClient
    from cgsa.service.telemetry.tracing import Tracing

_log = logging.getLogger(__name__)


def create_app(
    plant: MonitoredPlant,
    authenticator: Authenticator,
    *,
    sources: Sequence[Source] | RunningSources = (),
    sinks: AlarmSinks | None = None,
    limits: RequestLimits | None = None,
    oidc: OidcClient | None = None,
    tracing: Tracing | None = None,
    runs_plant: bool = True,
    dashboard: bool = True,
) -> FastAPI:
    """Return the app of a service.

    Parameters
    ----------
    plant
        The machines; not started yet, unless ``runs_plant`` says otherwise.
    sources, sinks
        Run as long as the app; the sinks are closed after the plant has stopped.
    oidc
        Logs people in with an identity provider, besides tokens.
    tracing
        Traces requests; it is closed after the plant has stopped.
    runs_plant
        Whether the app starts and stops the plant.
    dashboard
        Whether to serve pages; there are none if their dependencies are not installed.
    """
    limits = limits or RequestLimits()
    context = ServiceContext.of(plant, authenticator, limits, sinks=sinks, oidc=oidc)
    running = sources if isinstance(sources, RunningSources) else RunningSources(sources)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if tracing is not None:
                stack.push_async_callback(run_in_threadpool, tracing.close)
            if sinks is not None:
                stack.callback(sinks.close)
            if runs_plant:
                await run_in_threadpool(plant.start)
                stack.push_async_callback(run_in_threadpool, plant.stop)
            context.trends.start()
            stack.push_async_callback(run_in_threadpool, context.trends.close)
            await stack.enter_async_context(
                _running((running, *([sinks] if sinks else []), context.refusals, context.calendar))
            )
            stack.callback(context.feed.close)
            yield

    app = FastAPI(title="cgsa", version=__version__, lifespan=lifespan, redirect_slashes=False, openapi_url=None)
    app.state.context = context
    app.mount(PATH, create_api(context))
    app.include_router(health.router)
    app.include_router(health.metrics_router(create_registry(context, running, sinks or ())))
    app.include_router(login.router)
    if oidc is not None:
        app.include_router(import_module("cgsa.service.oidc.routes").oidc_router(oidc))
    handle_errors(app)
    # The middleware added last handles a request first.
    app.add_middleware(BodyLimit, limits=limits)
    if tracing is not None:
        # After the limits: what they refuse is not traced.
        app.add_middleware(import_module("cgsa.service.telemetry.tracing").RequestTraces, tracing=tracing)
    app.add_middleware(RateLimit, limits=limits, authenticator=authenticator, traffic=context.traffic)
    app.add_middleware(SecurityHeaders)
    if dashboard:
        _mount_dashboard(app, context)
    return app


@asynccontextmanager
async def _running(
    services: Sequence[RunningSources | AlarmSinks | RefusalLog | MaintenanceCalendar],
) -> AsyncIterator[None]:
    """Run sources, sinks, the log of refusals and the calendar until the end of the context."""
    tasks = [asyncio.create_task(one.run(), name=type(one).__name__) for one in services]
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("%s ended", task.get_name(), exc_info=task.exception())


def _mount_dashboard(app: FastAPI, context: ServiceContext) -> None:
    """Serve the pages at ``/``, if their dependencies are installed."""
    try:
        pages = import_module("cgsa.service.dashboard.router")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "cgsa":
            raise
        _log.warning("no dashboard: %s is missing; install it with pip install 'cgsa[serve]'", error.name)
        return
    pages.mount_pages(app, context)
