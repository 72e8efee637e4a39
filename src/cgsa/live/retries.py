"""Tasks that fail because of the environment: each failure is reported once, and the task is tried again by itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from cgsa.errors import CgsaError, environmental_cause, is_environmental

LOG = logging.getLogger(__name__)

FIRST_DELAY = 0.25
"""Seconds before the second attempt; the delay doubles with each further one."""
LONGEST_DELAY = 30.0
"""Upper bound of the delay, so that a disk with space again is used within half a minute."""


@dataclass(frozen=True)
class Problem:
    """A task that fails at present and is tried again."""

    task: str
    """What cannot be done, such as ``save the state``."""
    cause: str
    """What is wrong in the words of the system, such as ``No space left on device``; it names nothing of the plant."""
    reason: str
    """What is wrong, where, and what is expected."""
    since: float
    """When it failed first, in seconds since 1970."""
    attempts: int
    """How often it has failed in a row."""


class RetriedTasks:
    """The tasks of one machine, or of the service (None), that may fail; usable from any thread.

    ``remark`` receives the text of each first failure and of each recovery, for the notes of the machine.
    """

    def __init__(self, machine: str | None, remark: Callable[[str], None]) -> None:
        self._machine, self._remark = machine, remark
        self._problems: dict[str, Problem] = {}
        self._due: dict[str, float] = {}
        """When tasks that failed are tried again, by the monotonic clock."""
        self._lock = Lock()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What fails at present, in the order in which it began."""
        with self._lock:
            return tuple(self._problems.values())

    def fails(self, task: str) -> bool:
        """Return whether a task failed last time."""
        return task in self._problems

    def is_due(self, task: str) -> bool:
        """Return whether a task may be tried now."""
        return time.monotonic() >= self._due.get(task, 0.0)

    def attempt(self, task: str, action: Callable[[], object]) -> bool:
        """Run a task unless it has failed a moment ago; return whether it succeeded."""
        if not self.is_due(task):
            return False
        try:
            action()
        except Exception as error:  # whatever fails here must not end what the task is for
            self.fail(task, error)
            return False
        self.succeed(task)
        return True

    def fail(self, task: str, error: Exception) -> None:
        """Remember that a task failed, and when to try again."""
        known_error = isinstance(error, CgsaError) or is_environmental(error)
        reason = str(error) if isinstance(error, CgsaError) else f"{type(error).__name__}: {error}"
        with self._lock:
            before = self._problems.get(task)
            if before is None:
                found = Problem(task, environmental_cause(error), reason, time.time(), 1)
            else:
                found = replace(before, cause=environmental_cause(error), reason=reason, attempts=before.attempts + 1)
            self._problems[task] = found
            delay = FIRST_DELAY * 2 ** min(found.attempts - 1, 20) if known_error else LONGEST_DELAY
            self._due[task] = time.monotonic() + min(delay, LONGEST_DELAY)
        if before is None:
            text = f"cannot {task}, which is tried again: {reason}"
            self._warn(text, None if known_error else error)
            self._remark(text)

    def succeed(self, task: str) -> None:
        """Remember that a task succeeded."""
        if task not in self._problems:
            return
        with self._lock:
            before = self._problems.pop(task, None)
            self._due.pop(task, None)
        if before is not None:
            text = f"can {task} again, after {max(0.0, time.time() - before.since):.1f} s"
            self._warn(text)
            self._remark(text)

    def _warn(self, text: str, error: Exception | None = None) -> None:
        who = self._machine or "service"
        LOG.warning("%s: %s", who, text, exc_info=error, extra={"machine": self._machine})
