"""Limits of what clients may cost: the table ``[limits]`` of a configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cgsa.errors import ConfigError
from cgsa.live.intake.block import MAX_BYTES, MAX_HEADER_BYTES

BLOCKS = "/api/blocks"
"""The one path that accepts large bodies."""


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests and connections; each default is far above what an honest client needs.

    A request with a valid token or session is counted for its token, every other request for its address. So whoever
    has no token cannot use up what those behind the same address have.
    """

    connections: int = 512
    """Connections at the same time; each needs a file handle."""
    address_connections: int = 128
    """Connections from one address at the same time. One more ends the oldest that waits for a request, those
    without a valid token first."""
    held_connections: int = 1024
    """Ended connections without a valid token that are held at the same time: they are not read any more, but closed
    only after ``hold_seconds``, so that a client which opens each of them again at once seldom can. Each needs a file
    handle; fewer are held if the operating system has not as many for the service."""
    hold_seconds: float = 10.0
    """How long such a connection is held on average; from half to one and a half of it."""
    header_seconds: float = 10.0
    """Time to receive the headers of a request."""
    body_seconds: float = 30.0
    """Time to receive the body of a request."""
    send_seconds: float = 30.0
    """How long a client may not read before its connection is closed."""
    block_bytes: int = 16 * 2**20
    """Body of one block in binary form."""
    json_bytes: int = 4 * 2**20
    """Body of one block as JSON, which takes many times its size in memory."""
    body_bytes: int = 2**16
    """Any other body under ``/api``, and of a login."""
    page_bytes: int = 2**21
    """Body sent by a page."""
    waiting_bytes: int = 64 * 2**20
    """All bodies in memory at the same time; beyond it, requests are answered with 503."""
    address_rate: float = 20.0
    """Requests without a valid token per second from one address."""
    address_burst: float = 200.0
    """Such requests at once after a pause."""
    token_rate: float = 100.0
    """Requests per second with one token, other than blocks."""
    token_burst: float = 500.0
    """Such requests at once after a pause: a page consists of many files."""
    block_rate: float = 1000.0
    """Blocks per second with one token."""
    block_burst: float = 2000.0
    """Blocks at once with one token after a pause."""
    streams: int = 100
    """Event streams at the same time."""
    token_streams: int = 10
    """Event streams of one token at the same time."""
    token_pages: int = 20
    """Open pages of one token at the same time."""
    reads: int = 4
    """Reads of the store at the same time."""
    token_reads: int = 2
    """Reads of one token at the same time."""
    read_wait: float = 10.0
    """Seconds that a read waits for its turn."""
    read_share: float = 0.5
    """Seconds of reading per second and token in the long run."""
    read_burst: float = 30.0
    """Seconds of reading of a token after a pause."""

    def __post_init__(self) -> None:
        invalid = [name for name, value in vars(self).items() if not 0 < value < math.inf]
        if invalid:
            raise ConfigError(f"limit {invalid[0]} is {getattr(self, invalid[0])}; expected a positive number")
        if self.block_bytes > MAX_BYTES + MAX_HEADER_BYTES:
            raise ConfigError(f"limit block_bytes is {self.block_bytes}; a block has at most {MAX_BYTES} bytes")

    def body_limit(self, path: str) -> int:
        """Return the largest body in bytes that a path accepts."""
        if path == BLOCKS:
            return self.block_bytes
        return self.body_bytes if path == "/login" or path.startswith("/api") else self.page_bytes
