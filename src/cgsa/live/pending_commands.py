"""Commands that are in the journal and not carried out yet, and who waits for them."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock

from cgsa.errors import DataError


class PendingCommands:
    """Futures of commands by their positions in the journal; usable from any thread."""

    def __init__(self) -> None:
        self._futures: dict[int, Future[None]] = {}
        self._lock = Lock()

    def add(self, position: int) -> Future[None]:
        """Return the future of the command at a position."""
        done: Future[None] = Future()
        with self._lock:
            self._futures[position] = done
        return done

    def remove(self, position: int) -> None:
        """Forget a command that did not get into the journal."""
        with self._lock:
            del self._futures[position]

    def answer(self, position: int, refused: str | None) -> None:
        """End the future of a command, if a caller waits for it: it was carried out, or refused for a reason."""
        with self._lock:
            future = self._futures.pop(position, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if refused is None:
            future.set_result(None)
        else:
            future.set_exception(DataError(refused))

    def cancel(self) -> None:
        """Cancel all futures: a later process carries out the commands."""
        with self._lock:
            futures, self._futures = list(self._futures.values()), {}
        for future in futures:
            future.cancel()
