"""A link: a connection to another side that may fail at any moment, and is then built anew from nothing.

Clients of brokers and controllers promise to reconnect by themselves, and now
and then do not. So no link counts on it: whatever goes wrong ends one life of
the link with an exception, and :func:`supervise` begins the next one.
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
"""Seconds before the first attempt after a failure; each one after it takes twice as long..."""
LONGEST_DELAY = 10.0
"""...up to this. With the few seconds that an attempt may take, a link is back within 30 s after the other side is."""

State: TypeAlias = Literal["connecting", "up", "down", "ended"]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
Clock: TypeAlias = Callable[[], float]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Status:
    """How a link stands; a new one with every change, so that anybody may keep it."""

    name: str
    kind: str
    """What is at the other side, such as ``mqtt``."""
    state: State
    """Down until it is up again, also while it tries to be; ended where nothing more is to come."""
    since: float
    """When that began: seconds since 1970."""
    why: str = ""
    """What the newest failure was, where it is down."""
    note: str = ""
    """The newest trouble that cost something other than the connection."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What it did and what befell it so far, by name."""

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        because = f" because {self.why}" if self.state == "down" else ""
        return f"{self.name}: {self.state} since {since}{because}"


class Link(ABC):
    """Base of what has another side.

    Parameters
    ----------
    name
        By which people know it.
    kind
        What is at the other side.
    counted
        Names of what it counts, beside ``disconnects`` and ``reconnects``.
    clock
        Seconds since 1970.
    """

    def __init__(self, name: str, kind: str, counted: tuple[str, ...], *, clock: Clock = time.time) -> None:
        self.clock = clock
        self._was_up = False
        counts = dict.fromkeys((*counted, "disconnects", "reconnects"), 0)
        self.status = Status(name, kind, "connecting", clock(), counts=counts)

    @abstractmethod
    async def live(self) -> None:
        """Connect and work until something fails; return only where nothing more is to come."""

    async def tell(self, text: str) -> None:
        """Say that the link came up or went down."""
        _log.warning("%s", text)

    def count(self, **more: int) -> None:
        """Add to what was counted."""
        counts = self.status.counts
        self.status = replace(self.status, counts={**counts, **{name: counts[name] + n for name, n in more.items()}})

    def note(self, text: str) -> None:
        """Keep a trouble for people to see."""
        self.status = replace(self.status, note=text)

    async def came_up(self) -> None:
        """Say that the other side is there; where it already was, nothing is new."""
        if self.status.state == "up":
            return
        back = self.status.state == "down"
        self.status = replace(self.status, state="up", since=self.clock(), why="")
        if back and self._was_up:
            self.count(reconnects=1)
        self._was_up = True
        if back:
            await self.tell(f"{self.status.kind} {self.status.name} is up again")

    async def went_down(self, why: str) -> None:
        """Say that the other side is gone, or still not there."""
        before = self.status.state
        if before == "down":
            self.status = replace(self.status, why=why)
            return
        self.status = replace(self.status, state="down", since=self.clock(), why=why)
        if before == "up":
            self.count(disconnects=1)
        await self.tell(f"{self.status.kind} {self.status.name} is down: {why}")

    def ended(self) -> None:
        """Say that nothing more is to come."""
        self.status = replace(self.status, state="ended", since=self.clock())


async def supervise(
    link: Link,
    *,
    sleep: Sleep = asyncio.sleep,
    chance: Clock = random.random,
) -> None:
    """Keep a link alive through every failure; return where nothing more is to come from it.

    Attempts come at doubling distances. Chance shortens each by up to a half,
    lest a thousand links that lost one broker return to it in the same moment.
    """
    delay = FIRST_DELAY
    while True:
        try:
            await link.live()
        except Exception as error:  # whatever it is, one life of a link is all that it may cost
            # One that is thrown out as soon as it came must wait longer each time, too.
            steady = link.status.state == "up" and link.clock() - link.status.since >= LONGEST_DELAY
            delay = FIRST_DELAY if steady else delay
            await link.went_down(reason(error))
            await sleep(delay * (1 - chance() / 2))
            delay = min(2 * delay, LONGEST_DELAY)
        else:
            link.ended()
            return


def reason(error: BaseException) -> str:
    """Return what went wrong in one line; what is not our own error says what kind it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    if isinstance(error, TimeoutError) and not text:
        return "no answer in time"
    if isinstance(error, CgsaError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
