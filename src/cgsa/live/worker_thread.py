"""A thread that works on several machines in turn."""

from __future__ import annotations

import logging
import threading
import time

from cgsa.live.signal_process import SignalProcess
from cgsa.live.worker import Worker

LOG = logging.getLogger(__name__)

IDLE_SECONDS = 0.2
"""Longest time until a thread checks what is due for machines that have sent nothing."""
TURN_SECONDS = 0.05
"""How long a thread works on one machine before it turns to the next."""


class WorkerThread(threading.Thread):
    """A thread and the machines that it works on in turn."""

    def __init__(self, number: int, process: SignalProcess | None) -> None:
        super().__init__(name=f"cgsa-worker-{number}", daemon=True)
        self.process = process
        """Where the diagnoses of its machines are computed, if not in the thread itself."""
        self.workers: list[Worker] = []
        self._work = threading.Event()
        self._ended = threading.Event()
        self._rounds = 0

    @property
    def machines(self) -> int:
        """Number of machines that it works on, or will soon."""
        return len(self.workers) if self.process is None else self.process.signals

    def add(self, worker: Worker) -> None:
        """Work on a machine from now on."""
        self.workers.append(worker)
        self._work.set()

    def remove(self, worker: Worker) -> None:
        """Work on a machine no more; returns when its last turn has ended."""
        if worker not in self.workers:
            return
        self.workers.remove(worker)
        rounds = self._rounds
        while self.is_alive() and self._rounds == rounds:
            self._work.set()
            time.sleep(0.001)

    def wake(self) -> None:
        """Look for work."""
        self._work.set()

    def run(self) -> None:
        """Work until the thread is stopped."""
        check_time = 0.0
        while not self._ended.is_set():
            self._work.clear()
            self._rounds += 1
            # A block of one machine must not cost time for each of the others.
            check_all = time.monotonic() >= check_time
            if check_all:
                check_time = time.monotonic() + IDLE_SECONDS
            worked = [self._work_on(worker) for worker in tuple(self.workers) if check_all or worker.has_work]
            if not any(worked):
                self._work.wait(max(0.0, check_time - time.monotonic()))

    def stop(self) -> None:
        """End the thread after the current entry."""
        self._ended.set()
        self._work.set()
        if self.is_alive():
            self.join()

    def _work_on(self, worker: Worker) -> bool:
        """Work on one machine for a while; return whether there was work."""
        limit, worked = time.monotonic() + TURN_SECONDS, False
        try:
            while time.monotonic() < limit and not self._ended.is_set() and worker.work():
                worked = True
            worker.tick()
        except Exception as error:
            # A fault of the program in one worker must not end the others. Its journal has everything, so that it can
            # resume once the fault is repaired.
            LOG.exception("%s: the watch stopped", worker.machine, extra={"machine": worker.machine})
            worker.fail(f"the watch stopped: {error!r}; restart the service once this is repaired")
        return worked
