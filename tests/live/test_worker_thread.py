from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from cgsa.live import worker_thread
from cgsa.live.worker import Worker
from cgsa.live.worker_thread import WorkerThread


class CountedWorker:
    """Has entries for some turns, and counts how often it is asked to work and to check what is due."""

    machine = "counted"

    def __init__(self, entries: int, ended: Callable[[], None] | None = None) -> None:
        self.entries, self.ticks, self._ended = entries, 0, ended

    @property
    def has_work(self) -> bool:
        return self.entries > 0

    def work(self) -> bool:
        self.entries -= 1
        return False

    def tick(self) -> None:
        self.ticks += 1
        if self._ended is not None and self.entries <= 0:
            self._ended()


@pytest.mark.parametrize(("idle_seconds", "expected"), [(1000.0, 1), (0.0, 50)])
def test_a_busy_machine_costs_the_others_no_check_before_its_time(
    idle_seconds: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_thread, "IDLE_SECONDS", idle_seconds)
    thread = WorkerThread(0, None)
    busy, idle = CountedWorker(50, thread._ended.set), CountedWorker(0)
    for worker in (busy, idle):
        thread.add(cast(Worker, worker))
    # Every entry wakes the thread, as that of a journal does.
    monkeypatch.setattr(thread._work, "wait", lambda _: True)
    thread.run()
    assert (busy.ticks, idle.ticks) == (50, expected)
