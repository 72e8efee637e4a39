"""What a sink is: somebody at the other side of a link who wants to be told of alarms."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from cgsa.errors import DataError
from cgsa.service.sinks.outbox import Notification


class RefusedNotificationError(DataError):
    """The receiver is there and will never take this letter; the next one may be another matter."""


class SinkConnection(ABC):
    """An open connection to a receiver."""

    @abstractmethod
    async def send(self, letter: Notification) -> None:
        """Return once the receiver has the letter; anything else raises."""

    async def rest(self, seconds: float) -> None:
        """Wait for letters; raise where the connection is lost meanwhile, as far as that can be known."""
        await asyncio.sleep(seconds)


class Sink(ABC):
    """Base of the sinks."""

    kind: ClassVar[str]
    Config: ClassVar[type[object]]
    """Settings, a frozen dataclass."""

    def wants(self, letter: Notification) -> bool:  # noqa: ARG002 - for those that are choosy
        """Return whether the receiver is to get a letter."""
        return True

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[SinkConnection]:
        """Connect to the receiver, for as long as the context lasts."""
