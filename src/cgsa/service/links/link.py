"""A link: a connection to another system that may fail at any time and is then built anew.

Clients of brokers and controllers promise to reconnect by themselves, but sometimes do not. No link relies on it: any
failure ends the connection with an exception, and :func:`supervise` opens the next one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from cgsa.errors import CgsaError

FIRST_DELAY = 0.25
"""Seconds before the first attempt after a failure; the delay doubles with each attempt."""
LONGEST_DELAY = 10.0
"""Upper bound of the delay. With the seconds that an attempt takes, a link recovers within 30 s of the other side."""

LinkState: TypeAlias = Literal["connecting", "up", "down", "ended"]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
Clock: TypeAlias = Callable[[], float]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LinkStatus:
    """Status of a link; replaced, never changed, so that any thread may keep it."""

    name: str
    kind: str
    """Type of the other side, such as ``mqtt``."""
    state: LinkState
    """``down`` also while it tries to reconnect; ``ended`` if no more data can come."""
    since: float
    """Since when, in seconds since 1970."""
    why: str = ""
    """The last failure, if it is down."""
    note: str = ""
    """The last problem that did not end the connection."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counters by name."""

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        because = f" because {self.why}" if self.state == "down" else ""
        return f"{self.name}: {self.state} since {since}{because}"


class Link(ABC):
    """Base of sources and deliveries.

    Parameters
    ----------
    counted
        Names of its counters besides ``disconnects`` and ``reconnects``.
    clock
        Seconds since 1970.
    """

    def __init__(self, name: str, kind: str, counted: tuple[str, ...], *, clock: Clock = time.time) -> None:
        self.clock = clock
        self._was_up = False
        counts = dict.fromkeys((*counted, "disconnects", "reconnects"), 0)
        self.status = LinkStatus(name, kind, "connecting", clock(), counts=counts)

    @abstractmethod
    async def connect(self) -> None:
        """Connect and work until something fails; return only if no more data can come."""

    async def report(self, text: str) -> None:
        """Report that the link came up or went down."""
        _log.warning("%s", text)

    def count(self, **more: int) -> None:
        """Increase counters."""
        counts = self.status.counts
        self.status = replace(self.status, counts={**counts, **{name: counts[name] + n for name, n in more.items()}})

    def note(self, text: str) -> None:
        """Show a problem in the status."""
        self.status = replace(self.status, note=text)

    async def came_up(self) -> None:
        """Set the status to up, if it is not up already."""
        if self.status.state == "up":
            return
        back = self.status.state == "down"
        self.status = replace(self.status, state="up", since=self.clock(), why="")
        if back and self._was_up:
            self.count(reconnects=1)
        self._was_up = True
        if back:
            await self.report(f"{self.status.kind} {self.status.name} is up again")

    async def went_down(self, why: str) -> None:
        """Set the status to down, or update the reason."""
        before = self.status.state
        if before == "down":
            self.status = replace(self.status, why=why)
            return
        self.status = replace(self.status, state="down", since=self.clock(), why=why)
        if before == "up":
            self.count(disconnects=1)
        await self.report(f"{self.status.kind} {self.status.name} is down: {why}")

    def ended(self) -> None:
        """Set the status to ended."""
        self.status = replace(self.status, state="ended", since=self.clock())


async def supervise(link: Link, *, sleep: Sleep = asyncio.sleep, chance: Clock = random.random) -> None:
    """Reconnect a link after every failure; return when it has ended.

    Delays between attempts double. Each is shortened at random by up to a half, so that a thousand links do not
    reconnect to one broker at the same time.
    """
    delay = FIRST_DELAY
    while True:
        try:
            await link.connect()
        except Exception as error:  # any failure costs at most one connection
            # A link that is disconnected right after connecting must wait longer each time, too.
            stable = link.status.state == "up" and link.clock() - link.status.since >= LONGEST_DELAY
            delay = FIRST_DELAY if stable else delay
            await link.went_down(reason(error))
            await sleep(delay * (1 - chance() / 2))
            delay = min(2 * delay, LONGEST_DELAY)
        else:
            link.ended()
            return


def reason(error: BaseException) -> str:
    """Return an error as one line, with its type unless it is one of our own."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    if isinstance(error, TimeoutError) and not text:
        return "no answer in time"
    if isinstance(error, CgsaError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
