"""Saved states that must not be removed yet: users view them, or the journal rolls back to them."""

from __future__ import annotations

import time
from threading import Lock

PROTECTED_SECONDS = 600.0
"""How long a state is protected from removal after a user viewed it."""
MAX_PROTECTED = 4
"""States protected for viewers at a time, since each takes space on the disk."""


class ProtectedStates:
    """The protected states of one machine; usable from any thread."""

    def __init__(self) -> None:
        self._rollbacks: dict[int, int] = {}
        """States that were rolled back to, by the positions of the commands."""
        self._viewed: dict[int, float] = {}
        """When users last viewed states."""
        self._lock = Lock()

    def view(self, number: int) -> None:
        """Protect a state for a while, for a user who is viewing it."""
        with self._lock:
            viewed = {**self._viewed, number: time.monotonic()}
            latest = sorted(viewed, key=viewed.__getitem__)[-MAX_PROTECTED:]
            self._viewed = {state: viewed[state] for state in latest}

    def roll_back(self, position: int, number: int) -> None:
        """Protect a state as long as the command at a position, which rolls back to it, may have to be repeated."""
        self._rollbacks[position] = number

    def forget(self, before: int) -> None:
        """Give up the states of commands before a position, which are not repeated any more."""
        self._rollbacks = {position: state for position, state in self._rollbacks.items() if position >= before}

    @property
    def numbers(self) -> frozenset[int]:
        """The states that are protected now."""
        since = time.monotonic() - PROTECTED_SECONDS
        viewed = (state for state, viewed_time in self._viewed.items() if viewed_time > since)
        return frozenset(viewed) | frozenset(self._rollbacks.values())
