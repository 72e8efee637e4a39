"""Connections: how many each address may have, and how long they may wait for a request.

A connection costs a file handle and memory before any request is read. So the limits are kept where connections are
accepted, and the oldest one that waits makes room for a new one: whoever opens many ends their own. It is not closed at
once, because most of the cost of many connections is that each closed one is opened again: it is *held*, which costs
nothing but its handle.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cgsa.service.addresses import TrustedProxies, network_of
from cgsa.service.limits import RequestLimits
from cgsa.service.middleware import PERSON_KEY
from cgsa.service.traffic import TrafficCounts

GOLDEN_RATIO = 0.618
"""Its multiples, without their integers, fill the interval from 0 to 1 evenly."""


class ConnectionTable:
    """The open connections of a server by the network of the client, in order of their arrival."""

    def __init__(
        self, limits: RequestLimits, traffic: TrafficCounts, proxies: Iterable[str] = (), *, most_held: int = 0
    ) -> None:
        """``most_held`` is for how many held connections there are file handles."""
        self.limits, self.traffic = limits, traffic
        self._proxies = TrustedProxies(proxies)
        self._open: dict[str, OrderedDict[LimitedConnection, None]] = {}
        self._held: OrderedDict[LimitedConnection, None] = OrderedDict()
        self._spread = 0.0
        self._most_held = max(0, min(most_held, limits.held_connections))

    def admit(self, connection: LimitedConnection) -> bool:
        """Add a connection; return whether there is room for it."""
        own = self._open.get(connection.network, OrderedDict())
        limited = connection.address not in self._proxies
        if limited and len(own) >= self.limits.address_connections and not self._make_room(own):
            return False
        if self.traffic.connections >= self.limits.connections:
            crowded = max(self._open.values(), key=len)
            if not self._make_room(crowded) and not any(map(self._make_room, list(self._open.values()))):
                return False
        self._open.setdefault(connection.network, OrderedDict())[connection] = None
        self.traffic.connections += 1
        return True

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection that has ended, if it was admitted."""
        self._held.pop(connection, None)
        self.traffic.held = len(self._held)
        own = self._open.get(connection.network)
        if own is None or connection not in own:
            return
        del own[connection]
        self.traffic.connections -= 1
        if not own:
            del self._open[connection.network]

    def _hold(self, connection: LimitedConnection) -> None:
        """Hold a connection, if need be in the place of the one that has been held for the longest time."""
        if not self._most_held:
            connection.abort()
            return
        if len(self._held) >= self._most_held:
            next(iter(self._held)).abort()
        # Different times: many that were opened together must not be opened again together.
        self._spread = (self._spread + GOLDEN_RATIO) % 1
        connection.hold(self.limits.hold_seconds * (0.5 + self._spread))
        self._held[connection] = None
        self.traffic.held = len(self._held)

    def _make_room(self, found: OrderedDict[LimitedConnection, None]) -> bool:
        """End the oldest connection, those without a valid token first; return whether there was one to end."""
        busy = known = None
        # Usually the first one waits; whoever opens thousands must not make this a long search.
        for one in found:
            if not one.is_known and not one.is_busy:
                self._hold(one)
                return True
            if not one.is_known:
                busy = busy or one
            elif not one.is_busy:
                known = known or one
        chosen = busy or known
        if chosen is not None:
            chosen.abort()
        return chosen is not None


class LimitedConnection(H11Protocol):
    """A connection that is closed if it is one too many, or too slow."""

    table: ConnectionTable
    """Of the server; :func:`limited_protocol` sets it."""

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.address = self.network = ""
        self._deadline: asyncio.TimerHandle | None = None
        """When the headers of the next request, or what is left of the last one, must be complete."""
        self._read_deadline: asyncio.TimerHandle | None = None
        """When the client must have read some of the answer."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn sets it with the first request
        return cycle is not None and not cycle.response_complete

    @property
    def is_known(self) -> bool:
        """Whether the last request had a valid token."""
        scope: Mapping[str, object] | None = self.scope  # as above
        return scope is not None and scope.get(PERSON_KEY) is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Begin a connection, or close it if there are too many."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.network = network_of(self.address)
        if self.table.admit(self):
            self._expect_request()
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self.table.remove(self)
        self._cancel_deadlines()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._expect_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to a page, which has a limit of its own."""
        self.table.remove(self)
        self._cancel_deadlines()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        if self._read_deadline is None:
            self._read_deadline = self.loop.call_later(self.table.limits.send_seconds, self.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    def abort(self) -> None:
        """Close the connection at once."""
        self.table.traffic.closed += 1
        self.table.remove(self)
        self.transport.abort()

    def hold(self, seconds: float) -> None:
        """End the connection and close it later: nothing of it is read any more."""
        self.table.remove(self)
        self._cancel_deadlines()
        self._unset_keepalive_if_required()
        self.flow.pause_reading()
        self._deadline = self.loop.call_later(seconds, self.abort)

    def _expect_request(self) -> None:
        """Start the clock of the next headers; bytes that trickle in do not stop it."""
        if self.is_busy:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.table.limits.header_seconds, self.abort)

    def _cancel_deadlines(self) -> None:
        for deadline in (self._deadline, self._read_deadline):
            if deadline is not None:
                deadline.cancel()
        self._deadline = self._read_deadline = None


def limited_protocol(table: ConnectionTable) -> type[LimitedConnection]:
    """Return the class of the connections of one server."""
    return type("ServerConnection", (LimitedConnection,), {"table": table})
