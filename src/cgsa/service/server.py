"""The web server around the app, with the bounds that only it can keep."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from cgsa.service.context import ServiceContext

HEADER_BYTES = 2**14
"""Of all headers of a request."""
MESSAGE_BYTES = 2**20
"""Of one message of a page."""
CONNECTIONS = 1000
IDLE_SECONDS = 15
"""That a connection may wait for its next request."""
GRACE_SECONDS = 5
"""That requests have to finish when the service ends."""


class Server(uvicorn.Server):
    """Lets those who listen to events go when it ends; they would stay for ever."""

    def __init__(self, config: uvicorn.Config, parts: ServiceContext) -> None:
        super().__init__(config)
        self._parts = parts

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in good order."""
        self._parts.feed.close()
        await super().shutdown(sockets)


def create_server(
    app: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: Path | None = None,
    key: Path | None = None,
    proxies: tuple[str, ...] = (),
) -> Server:
    """Return a server for an app; its ``run`` or ``serve`` returns when it has ended.

    Parameters
    ----------
    app
        From :func:`cgsa.service.app.create_app`.
    host, port
        Where to listen.
    certificate, key
        For TLS; none speaks plain HTTP.
    proxies
        Addresses of proxies that are believed when they say whom they speak for.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        # The one implementation that bounds headers.
        http="h11",
        h11_max_incomplete_event_size=HEADER_BYTES,
        ws_max_size=MESSAGE_BYTES,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
        access_log=False,
        log_level="warning",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=",".join(proxies),
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    return Server(config, app.state.parts)
