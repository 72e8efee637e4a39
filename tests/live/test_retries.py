from __future__ import annotations

import errno
import sqlite3
import time
from itertools import pairwise

import pytest

from cgsa.errors import BundleError, DataError, environmental_cause, is_environmental
from cgsa.live.retries import FIRST_DELAY, LONGEST_DELAY, RetriedTasks

FULL = OSError(errno.ENOSPC, "No space left on device")


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "environmental", "cause"),
    [
        (FULL, True, "No space left on device"),
        (caused(DataError("x"), FULL), True, "No space left on device"),
        (caused(DataError("x"), caused(BundleError("y"), FULL)), True, "No space left on device"),
        (MemoryError(), True, "out of memory"),
        (sqlite3.OperationalError("disk I/O error"), True, "disk I/O error"),
        (sqlite3.DatabaseError("malformed"), True, "malformed"),
        (sqlite3.IntegrityError("twice"), False, "twice"),
        (DataError("x"), False, "fault of the program"),
        (IndexError("x"), False, "fault of the program"),
    ],
)
def test_errors_of_the_environment_are_told_from_those_of_the_program(
    error: Exception, environmental: object, cause: str
) -> None:
    assert is_environmental(error) is environmental
    assert environmental_cause(error) == cause


def test_a_task_is_tried_again_ever_less_often_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, remarks, attempts = 1000.0, list[str](), list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tasks = RetriedTasks("m1", remarks.append)

    def fail() -> None:
        attempts.append(now)
        raise FULL

    while now < 1000.0 + 4 * LONGEST_DELAY:
        tasks.attempt("save the state", fail)
        now += FIRST_DELAY / 2
    waits = [after - before for before, after in pairwise(attempts)]
    assert waits[:3] == [FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY]
    assert waits == sorted(waits)
    assert max(waits) == LONGEST_DELAY
    (problem,) = tasks.problems
    assert (problem.task, problem.cause, problem.attempts) == (
        "save the state",
        "No space left on device",
        len(attempts),
    )
    assert len(remarks) == 1
    now += LONGEST_DELAY
    assert tasks.attempt("save the state", lambda: None)
    assert tasks.problems == ()
    assert [text.split(",")[0] for text in remarks] == ["cannot save the state", "can save the state again"]


def test_tasks_do_not_wait_for_each_other() -> None:
    tasks = RetriedTasks("m1", lambda _: None)
    tasks.fail("one", FULL)
    assert not tasks.attempt("one", lambda: None)
    assert tasks.attempt("two", lambda: None)
    assert tasks.fails("one")
    assert not tasks.fails("two")
