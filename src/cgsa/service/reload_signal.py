"""Reloads the configuration whenever the process receives SIGHUP."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Protocol

LOG = logging.getLogger(__name__)


class Reloading(Protocol):
    """What a signal starts."""

    def reload(self) -> object:
        """Reload the configuration; never raises."""


@contextmanager
def ignoring_hangups() -> Iterator[None]:
    """Ignore SIGHUP during the context, such as until a service can reload; for the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def reloading(reloader: Reloading | None) -> Iterator[None]:
    """Reload in a thread of its own on each SIGHUP during the context; for the main thread alone."""
    if reloader is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    # A handler may interrupt anything: this queue takes it, where a lock might be held already.
    wanted: SimpleQueue[bool] = SimpleQueue()

    def work() -> None:
        while wanted.get():
            reloader.reload()

    thread = threading.Thread(target=work, name="cgsa-reload", daemon=True)
    thread.start()
    before = signal.signal(signal.SIGHUP, lambda *_: wanted.put(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        wanted.put(False)
        thread.join()
