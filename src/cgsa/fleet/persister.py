"""Writes results and then states, in a thread of its own, so that a slow disk or network costs no machine its turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cgsa.fleet.hosted_machine import CapturedState, HostedMachine
from cgsa.fleet.results import ResultBatch, ResultStore
from cgsa.live.retries import Problem, RetriedTasks

WRITE = "write results and states"
POLL_SECONDS = 0.1
"""How often the thread checks whether a job that failed is due again."""


@dataclass(frozen=True, eq=False)
class PersistJob:
    """Results to write, and states to save once they are durable."""

    batches: Sequence[ResultBatch] = ()
    states: Sequence[tuple[HostedMachine, CapturedState]] = ()
    positions: Mapping[str, int] = field(default_factory=dict)
    """Positions of machines before which all results are written with this job."""
    done: threading.Event = field(default_factory=threading.Event)
    """Set once all of it is durable."""


class Persister:
    """Runs jobs in order, each until it succeeds; results always come before the states that include them.

    ``on_fenced`` receives the machines that others own, ``on_done`` the positions that are durable, both in the thread
    that writes.
    """

    def __init__(
        self,
        results: ResultStore,
        on_fenced: Callable[[frozenset[str]], None],
        on_done: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._results, self._on_fenced, self._on_done = results, on_fenced, on_done
        self._retries = RetriedTasks(None, lambda _: None)
        self._changed = threading.Condition()
        self._jobs: deque[PersistJob] = deque()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="cgsa-persist", daemon=True)
        self._thread.start()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What fails at present and is tried again."""
        return self._retries.problems

    @property
    def busy(self) -> bool:
        """Whether a job is not done yet."""
        return bool(self._jobs)

    def add(self, job: PersistJob) -> None:
        """Do a job after those before it."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    def close(self) -> None:
        """Do what is due and end the thread; jobs that fail are given up."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._jobs) or self._ended)
                if not self._jobs:
                    return
                job = self._jobs[0]
            if self._retries.attempt(WRITE, partial(self._persist, job)):
                with self._changed:
                    self._jobs.popleft()
                job.done.set()
                continue
            with self._changed:
                if self._changed.wait_for(lambda: self._ended, POLL_SECONDS):
                    return

    def _persist(self, job: PersistJob) -> None:
        fenced = self._results.write(job.batches)
        if fenced:
            self._on_fenced(fenced)
        for machine, captured in job.states:
            if machine.machine not in fenced:
                machine.save(captured)
        self._on_done({name: position for name, position in job.positions.items() if name not in fenced})
