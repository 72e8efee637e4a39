"""The connection to NATS: its settings, and a thread that runs the client."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import BadRequestError

from cgsa.errors import ConfigError
from cgsa.fleet.failures import raise_unavailable

T = TypeVar("T")
TRANSIENT = (NatsError, OSError, asyncio.TimeoutError)
"""What a client raises while a server is away."""
REQUEST_SECONDS = 10.0
"""How long a call waits for the server, which may be restarting."""
RECONNECT_SECONDS = 0.25


@dataclass(frozen=True)
class NatsConfig:
    """Servers and credentials."""

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    """Addresses of a server or of the servers of a cluster; ``tls://`` demands TLS."""
    user: str = ""
    """User that logs in with a password."""
    password_file: str | None = None
    """File with the password of the user."""
    token_file: str | None = None
    """File with a token, instead of a user and a password."""
    credentials: str | None = None
    """File with a JWT and its key (``.creds``), as ``nsc`` writes it."""
    ca_file: str | None = None
    """Certificates of the authorities that may sign the server's; None means those of the system."""
    cert_file: str | None = None
    """Certificate of this client, for a server that asks for one."""
    key_file: str | None = None
    """Key of this client's certificate."""

    def __post_init__(self) -> None:
        if not self.servers:
            raise ConfigError("servers is empty; expected an address such as nats://127.0.0.1:4222")
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError("cert_file and key_file go together; expected both or neither")
        chosen = [name for name in ("user", "token_file", "credentials") if getattr(self, name)]
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(chosen)} are given; expected one way to log in")

    def options(self) -> dict[str, Any]:
        """Return the options of a client."""
        found: dict[str, Any] = {"servers": list(self.servers)}
        if self.user:
            found |= {"user": self.user, "password": _secret(self.password_file)}
        if self.token_file is not None:
            found["token"] = _secret(self.token_file)
        if self.credentials is not None:
            found["user_credentials"] = self.credentials
        if self.ca_file is not None or any(server.startswith("tls://") for server in self.servers):
            found["tls"] = self._tls()
        return found

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except OSError as error:
            raise ConfigError(f"the certificates for NATS cannot be read ({error})") from error
        return context


class NatsConnection:
    """A connection that comes back by itself; its client runs in a thread of its own.

    ``on_reconnect`` is called in that thread after the connection was lost and is back.
    """

    def __init__(self, config: NatsConfig, on_reconnect: Callable[[], None] = lambda: None) -> None:
        self.loop = asyncio.new_event_loop()
        self._where = ", ".join(config.servers)
        self._thread = threading.Thread(target=self.loop.run_forever, name="cgsa-nats", daemon=True)
        self._thread.start()

        async def connect() -> Client:
            async def reconnected() -> None:
                on_reconnect()

            async def ignore(_: Exception) -> None:
                """Whoever called gets the error; the client would also print it."""

            return await nats.connect(
                **config.options(),
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_SECONDS,
                connect_timeout=5,
                reconnected_cb=reconnected,
                error_cb=ignore,
                allow_reconnect=True,
            )

        try:
            self.client = self.run(connect(), "cannot be reached")
        except BaseException:
            self._stop()
            raise

    def run(self, action: Coroutine[Any, Any, T], failure: str) -> T:
        """Run a call in the thread of the client and return its result; ``failure`` says what a failure means.

        What the server refuses raises a ``BadRequestError``.
        """
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(action, REQUEST_SECONDS), self.loop)
        try:
            return future.result()
        except BadRequestError:
            raise
        except TRANSIENT as error:
            raise_unavailable(f"{self._where}: {failure}", error)

    def close(self) -> None:
        """Close the connection."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.client.close(), self.loop).result(REQUEST_SECONDS)
            self._stop()

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def _secret(path: str | None) -> str:
    if path is None:
        raise ConfigError("user without password_file; expected the file that holds the password")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
