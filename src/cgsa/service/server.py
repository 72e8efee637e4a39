"""The web server around the app, with the limits that only it can enforce."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from cgsa.service.connections import ConnectionTable, limited_protocol
from cgsa.service.context import ServiceContext
from cgsa.service.file_handles import raise_handle_limit
from cgsa.service.request_ids import RequestIds
from cgsa.service.systemd import notify, watchdog_seconds

HEADER_BYTES = 2**14
"""Limit for all headers of a request."""
MESSAGE_BYTES = 2**20
"""Limit for one WebSocket message of a page."""
BACKLOG = 16
"""Connections that wait to be accepted: all of them are accepted in one step of the event loop, in which nothing else
is done. The operating system of a client that finds no place tries again after a second."""
IDLE_SECONDS = 15
"""How long a connection may wait for its next request."""
GRACE_SECONDS = 5
"""How long requests may take to finish at shutdown."""
OTHER_HANDLES = 512
"""File handles for everything but connections: journals, states, store, sources and sinks."""


class Server(uvicorn.Server):
    """Ends event streams at shutdown, which would never end by themselves, and tells systemd how the service is."""

    def __init__(self, config: uvicorn.Config, context: ServiceContext) -> None:
        super().__init__(config)
        self._context = context
        expected = watchdog_seconds()
        self._sign_seconds = math.inf if expected is None else expected / 3
        self._sign_time = -math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self.started:
            notify("READY=1", "STATUS=listening")

    async def on_tick(self, counter: int) -> bool:
        """Give a sign of life every now and then: the event loop turns."""
        now = time.monotonic()
        if now - self._sign_time >= self._sign_seconds:
            self._sign_time = now
            notify("WATCHDOG=1")
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all event streams, then the server."""
        notify("STOPPING=1")
        self._context.feed.close()
        await super().shutdown(sockets)


def create_server(
    app: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: Path | None = None,
    key: Path | None = None,
    proxies: Sequence[str] = (),
) -> Server:
    """Return a server for an app; its ``run`` or ``serve`` returns after shutdown.

    Parameters
    ----------
    app
        From :func:`cgsa.service.app.create_app`.
    certificate, key
        Files for TLS; None serves plain HTTP.
    proxies
        Addresses of trusted proxies, whose ``X-Forwarded-For`` header is used.
    """
    context: ServiceContext = app.state.context
    limits = context.limits
    others = limits.connections + OTHER_HANDLES
    table = ConnectionTable(
        limits, context.traffic, proxies, most_held=raise_handle_limit(others + limits.held_connections) - others
    )
    config = uvicorn.Config(
        # Around the app, so that answers about its own faults have a number, too.
        RequestIds(app),
        host=host,
        port=port,
        http=limited_protocol(table),
        h11_max_incomplete_event_size=HEADER_BYTES,
        ws_max_size=MESSAGE_BYTES,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
        access_log=False,
        # Its messages go where all others go, in the same form.
        log_config=None,
        log_level="warning",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=",".join(proxies),
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    return Server(config, context)
