"""Keeps a store small and sound while it is used: deletes old rows, thins old windows, and checks all pages daily."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from cgsa.errors import DataError
from cgsa.live.retries import LONGEST_DELAY, Problem, RetriedTasks
from cgsa.live.store import LedgerBudget, RowRetention, Store

CHECK, THIN, TRIM = "check the store", "thin old windows", "delete old rows"
CHECK_SECONDS = 86_400.0
"""Time between two checks of all pages of the store; the first comes after a start."""
TRIM_SECONDS = 600.0
"""Time between two deletions of rows beyond their retention, and between two thinnings of the ledgers."""


class StoreMaintenance:
    """Maintains a store in a thread of its own; what fails is tried again. Its settings may be changed at any time."""

    def __init__(self, store: Store, retention: RowRetention | None = None, ledger: LedgerBudget | None = None) -> None:
        self._store = store
        self.retention, self.ledger = retention or RowRetention(), ledger or LedgerBudget()
        self._stopping = threading.Event()
        self._retries = RetriedTasks(None, lambda _: None)
        self._thread = threading.Thread(target=self._run, name="cgsa-trim", daemon=True)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What fails at present."""
        return self._retries.problems

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; the store may be closed now."""
        self._stopping.set()

    def _run(self) -> None:
        checked = -math.inf
        while not self._stopping.wait(min(TRIM_SECONDS, LONGEST_DELAY) if self.problems else TRIM_SECONDS):
            if time.monotonic() - checked >= CHECK_SECONDS:
                checked = time.monotonic()
                self._retries.attempt(CHECK, lambda: self._maintain(lambda _: self._store.check()))
            self._retries.attempt(THIN, lambda: self._maintain(lambda now: self._store.thin(now, self.ledger)))
            self._retries.attempt(TRIM, lambda: self._maintain(lambda now: self._store.trim(now, self.retention)))

    def _maintain(self, action: Callable[[float], object]) -> None:
        try:
            action(time.time())
        except DataError:
            # A service that is stopping closes the store at any time.
            if not self._stopping.is_set():
                raise
