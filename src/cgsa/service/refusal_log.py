"""The audit of refused requests: bounded, whatever clients send.

A client that keeps trying must not fill the disk, and neither must a thousand of them. So similar refusals are written
down a few times, all refusals without a valid token a hundred times, and then one in minutes. The rest is counted, and
the counts are written once per hour.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from threading import Lock

from starlette.requests import HTTPConnection

from cgsa.service.auth import Authenticator, origin_of
from cgsa.service.buckets import TokenBuckets
from cgsa.service.rights import Person

MAX_SIMILAR = 5
"""Similar refusals of one client that are written down at once; after that, one per minute."""
MAX_REFUSALS = 100
"""Refusals of one person, or of all without a valid token, that are written down at once."""
REFUSAL_SECONDS = 300.0
"""After that, one is written down in this time."""
SUMMARY_SECONDS = 3600.0
"""Interval at which the others are summed up."""
MAX_KINDS = 50
"""Kinds of refusals that a summary names."""


class RefusalLog:
    """Writes refusals into the audit; usable from any thread."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._similar = TokenBuckets(1 / 60, MAX_SIMILAR)
        self._all = TokenBuckets(1 / REFUSAL_SECONDS, MAX_REFUSALS)
        self._left_out: Counter[str] = Counter()
        self._lock = Lock()

    def record(
        self,
        person: Person | None,
        what: str,
        status: int,
        reason: str,
        connection: HTTPConnection,
        *,
        machine: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Write a refusal down, or count it if there have been too many."""
        who, recorded = person.name if person else None, dict(details or {})
        key = (who, origin_of(connection), what, status)
        if not (self._similar.draw(key) and self._all.draw(who)):
            with self._lock:
                kind = f"{status} {what}"
                self._left_out[kind if kind in self._left_out or len(self._left_out) < MAX_KINDS else "others"] += 1
            return
        if self._similar.empty(key):
            recorded["more"] = "further ones within a minute are not written down"
        self._authenticator.audit(person, what, machine, connection, f"{status} {reason}", **recorded)

    def summarise(self) -> None:
        """Write how many refusals were not written down since the last time, if any."""
        with self._lock:
            counts, self._left_out = self._left_out, Counter()
        if counts:
            self._authenticator.audit(None, "refused requests", None, None, f"{counts.total()} more", **counts)

    async def run(self) -> None:
        """Sum up once per hour, and at the end."""
        try:
            while True:
                await asyncio.sleep(SUMMARY_SECONDS)
                self.summarise()
        finally:
            self.summarise()
