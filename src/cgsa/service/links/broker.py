"""Connections to an MQTT broker, for both source and sink."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Self

import aiomqtt

from cgsa.errors import ConfigError
from cgsa.service.links.secret import Secret

ANSWER_SECONDS = 5.0
"""How long a broker may take to answer."""
KEEPALIVE_SECONDS = 10
"""A broker that vanishes silently is noticed after at most twice this long."""


@dataclass(frozen=True)
class Tls:
    """Encryption; an empty table is enough if the system trusts the broker's certificate."""

    ca: str | None = None
    """File of trusted certificate authorities; None means the system's."""
    certificate: str | None = None
    """File of the client certificate, if the broker asks for one."""
    key: str | None = None
    """File of its key; None if the certificate's file holds it."""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context; the broker's name is checked against its certificate."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            files = ", ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise ConfigError(f"tls: {files or 'the system certificates'} cannot be used ({error})") from error
        return context


@dataclass(frozen=True)
class Broker:
    """Address and credentials of a broker."""

    host: str = "localhost"
    """Name or address of the broker."""
    port: int | None = None
    """None means the default: 1883, or 8883 with TLS."""
    user: str | None = None
    """Who logs in; None logs in without a name."""
    password: Secret | None = None
    tls: Tls | None = None
    """None means no encryption: anybody on the network path can read and change everything."""

    def __post_init__(self) -> None:
        if self.password is not None and self.user is None:
            raise ConfigError("password without user; expected both")

    def options(self) -> dict[str, Any]:
        """Return the settings of a client; secrets and certificates are read anew each time."""
        return {
            "hostname": self.host,
            "port": self.port or (1883 if self.tls is None else 8883),
            "username": self.user,
            "password": None if self.password is None else self.password.read(),
            "tls_context": None if self.tls is None else self.tls.context(),
            "timeout": ANSWER_SECONDS,
            "keepalive": KEEPALIVE_SECONDS,
        }


class MqttClient(aiomqtt.Client):
    """A client of a broker for one connection; a failed attempt leaves nothing open."""

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except BaseException:
            # Otherwise a broker that answers late would count two connections.
            self._client.disconnect()
            raise
