"""Calls for people, posted to a web address.

Each is a POST of JSON, the event with its ``id``. The header
``Idempotency-Key`` holds the id, too: a letter is sent again where the answer to
the first was lost. With a secret, ``X-Cgsa-Signature`` holds ``sha256=`` and
the HMAC-SHA256 of the body in hexadecimal digits, by which the receiver knows
who wrote it.
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
"""Answers that are about the letter; all others are about the receiver, who may come to its senses."""
SIGNATURE = "X-Cgsa-Signature"


@dataclass(frozen=True)
class WebhookConfig:
    """Where to post."""

    url: str
    secret: Secret | None = None
    """With which bodies are signed."""
    ca: str | None = None
    """File of the authorities to trust; none means the system's."""
    timeout_seconds: float = 10.0
    everything: bool = False
    """Whether to post every change of a case, and not only those for which somebody is to be called."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError("url: expected one that begins with http:// or https://")
        if not 0 < self.timeout_seconds <= 60:
            raise ConfigError(f"timeout_seconds {self.timeout_seconds:g}; expected up to 60 s")


class WebhookSink(Sink):
    """Posts letters."""

    kind: ClassVar[str] = "webhook"
    Config: ClassVar[type[object]] = WebhookConfig

    def __init__(self, config: WebhookConfig) -> None:
        self.config = config

    def wants(self, letter: Notification) -> bool:
        """Return whether somebody is to be called."""
        return self.config.everything or bool(letter.event["notify"])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SinkConnection]:
        """Connect with the first letter."""
        try:
            trust = ssl.create_default_context(cafile=self.config.ca)
        except OSError as error:
            raise ConfigError(f"ca: {self.config.ca} cannot be used ({error})") from error
        async with httpx.AsyncClient(timeout=self.config.timeout_seconds, verify=trust) as client:
            yield _Posts(self.config, client)


class _Posts(SinkConnection):
    def __init__(self, config: WebhookConfig, client: httpx.AsyncClient) -> None:
        self._config, self._client = config, client

    async def send(self, letter: Notification) -> None:
        body = letter.body()
        headers = {"Content-Type": "application/json", "Idempotency-Key": letter.id}
        if self._config.secret is not None:
            headers[SIGNATURE] = signature(self._config.secret.read(), body)
        # The address may hold a secret of the receiver, so no message names it.
        answer = await self._client.post(self._config.url, content=body, headers=headers)
        if answer.status_code in REFUSALS:
            raise RefusedNotificationError(f"letter {letter.id}: the receiver refuses it with {answer.status_code}")
        if not answer.is_success:
            raise DataError(f"the receiver answers {answer.status_code} {answer.reason_phrase}; expected 2xx")


def signature(secret: str, body: bytes) -> str:
    """Return what stands in the header of a body that is signed.

    >>> signature("key", b"{}")[:15]
    'sha256=a777724d'
    """
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
