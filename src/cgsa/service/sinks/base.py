"""Base class of sinks: receivers of alarm notifications."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from cgsa.errors import DataError
from cgsa.service.sinks.outbox import Notification


class RefusedNotificationError(DataError):
    """The receiver will never accept this notification; it may accept the next one."""


class SinkConnection(ABC):
    """An open connection to a receiver."""

    @abstractmethod
    async def send(self, notification: Notification) -> None:
        """Return once the receiver has the notification; raise on any failure."""

    async def wait(self, seconds: float) -> None:
        """Wait for further notifications; raise if the connection is lost meanwhile, as far as that can be detected."""
        await asyncio.sleep(seconds)


class Sink(ABC):
    """Base of the sinks."""

    kind: ClassVar[str]
    Config: ClassVar[type[object]]
    """Settings, a frozen dataclass."""

    def wants(self, notification: Notification) -> bool:  # noqa: ARG002 - for sinks that select
        """Return whether to send a notification to this receiver."""
        return True

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[SinkConnection]:
        """Connect to the receiver for the duration of the context."""
