"""Where an MQTT broker is, and how one is let in; what its source and its sink share."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Self

import aiomqtt

from cgsa.errors import ConfigError
from cgsa.service.links.secret import Secret

ANSWER_SECONDS = 5.0
"""That a broker may take for an answer."""
KEEPALIVE_SECONDS = 10
"""A broker that vanished without a word is missed after at most twice this long."""


@dataclass(frozen=True)
class Tls:
    """Encryption; an empty table means that of a broker whose certificate the system trusts."""

    ca: str | None = None
    """File of the authorities to trust; none means the system's."""
    certificate: str | None = None
    """File of our own certificate, for brokers that ask for one..."""
    key: str | None = None
    """...and of its key; none where the certificate's file holds it."""

    def context(self) -> ssl.SSLContext:
        """Return what encrypts; the broker's name is checked against its certificate."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            files = ", ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise ConfigError(f"tls: {files or 'the authorities of the system'} cannot be used ({error})") from error
        return context


@dataclass(frozen=True)
class Broker:
    """One broker, as one of its clients sees it."""

    host: str = "localhost"
    port: int | None = None
    """None means the usual one: 1883, or 8883 with TLS."""
    user: str | None = None
    password: Secret | None = None
    tls: Tls | None = None
    """None means that anybody on the way can read and change everything."""

    def __post_init__(self) -> None:
        if self.password is not None and self.user is None:
            raise ConfigError("password: it is of no user; name one, too")

    def options(self) -> dict[str, Any]:
        """Return what a client is made with; secrets and certificates are read anew each time."""
        return {
            "hostname": self.host,
            "port": self.port or (1883 if self.tls is None else 8883),
            "username": self.user,
            "password": None if self.password is None else self.password.read(),
            "tls_context": None if self.tls is None else self.tls.context(),
            "timeout": ANSWER_SECONDS,
            "keepalive": KEEPALIVE_SECONDS,
        }


class Client(aiomqtt.Client):
    """A client of a broker, for one connection; one that came to nothing leaves nothing open."""

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except BaseException:
            # A broker that answers too late would else believe us connected, twice.
            self._client.disconnect()
            raise
