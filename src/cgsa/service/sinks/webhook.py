"""Notifications posted to a web address.

Each is a POST of JSON, the event with its ``id``, and with a ``reason`` if it is escalated or comes after a
maintenance. The header ``Idempotency-Key`` holds the ID, too: a notification is sent again if the answer was lost. With
a secret, ``X-Cgsa-Signature`` holds ``sha256=`` and the HMAC-SHA256 of the body in hexadecimal digits, by which the
receiver can verify the sender.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

import httpx

from cgsa.errors import ConfigError, DataError
from cgsa.service.links.secret import Secret
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.outbox import Notification

REFUSALS = frozenset({400, 413, 415, 422})
"""Answers that refuse the notification itself; all others concern the receiver, which may recover."""
SIGNATURE = "X-Cgsa-Signature"


@dataclass(frozen=True)
class WebhookConfig:
    """Where to post, and what."""

    url: str
    """Where notifications are posted."""
    secret: Secret | None = None
    """Key with which bodies are signed."""
    ca: str | None = None
    """File of trusted certificate authorities; None means the system's."""
    timeout_seconds: float = 10.0
    """How long the receiver may take to answer."""
    everything: bool = False
    """Whether to post every change of a case, and not only those that need a notification."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError("url: expected an address that begins with http:// or https://")
        if not 0 < self.timeout_seconds <= 60:
            raise ConfigError(f"timeout_seconds {self.timeout_seconds:g}; expected up to 60 s")


class WebhookSink(Sink):
    """Posts notifications."""

    kind: ClassVar[str] = "webhook"
    Config: ClassVar[type[object]] = WebhookConfig

    def __init__(self, config: WebhookConfig) -> None:
        self.config = config

    def wants(self, notification: Notification) -> bool:
        """Return whether a change needs a notification, or all are wanted."""
        return self.config.everything or (bool(notification.event["notify"]) and not notification.held)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SinkConnection]:
        """Connect with the first notification."""
        try:
            trust = ssl.create_default_context(cafile=self.config.ca)
        except OSError as error:
            raise ConfigError(f"ca: {self.config.ca} cannot be used ({error})") from error
        async with httpx.AsyncClient(timeout=self.config.timeout_seconds, verify=trust) as client:
            yield _Posts(self.config, client)


class _Posts(SinkConnection):
    def __init__(self, config: WebhookConfig, client: httpx.AsyncClient) -> None:
        self._config, self._client = config, client

    async def send(self, notification: Notification) -> None:
        body = notification.body()
        headers = {"Content-Type": "application/json", "Idempotency-Key": notification.id}
        if self._config.secret is not None:
            headers[SIGNATURE] = signature(self._config.secret.read(), body)
        # The address may hold a secret of the receiver, so no message names it.
        answer = await self._client.post(self._config.url, content=body, headers=headers)
        if answer.status_code in REFUSALS:
            raise RefusedNotificationError(f"notification {notification.id} refused with {answer.status_code}")
        if not answer.is_success:
            raise DataError(f"the receiver answers {answer.status_code} {answer.reason_phrase}; expected 2xx")


def signature(secret: str, body: bytes) -> str:
    """Return the signature header of a body.

    >>> signature("key", b"{}")[:15]
    'sha256=a777724d'
    """
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
