"""Counts of connections and of requests beyond the limits, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

RefusalReason: TypeAlias = Literal["address", "token", "block", "page"]
"""The limit that a request was beyond."""


@dataclass
class TrafficCounts:
    """What the limits have done since the start; changed in the event loop alone."""

    connections: int = 0
    """Open now."""
    held: int = 0
    """Ended, but not closed yet."""
    closed: int = 0
    """Closed to make room, or because they were too slow."""
    refused: dict[RefusalReason, int] = field(default_factory=lambda: {"address": 0, "token": 0, "block": 0, "page": 0})
    """Requests."""
