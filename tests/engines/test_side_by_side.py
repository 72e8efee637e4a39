from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from threading import Barrier, Lock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.engines.side_by_side import MAX_WORKERS, available_cores, side_by_side
from tests.threads import blas_threads, threads_and_cores


@pytest.fixture
def two_workers() -> Iterator[None]:
    with threads_and_cores(2):
        yield


@pytest.mark.usefixtures("two_workers")
def test_results_have_the_order_of_the_items() -> None:
    done: list[int] = []
    others = threading.Event()

    def last_first(item: int) -> int:
        if item == 0:
            assert others.wait(10)
        if item == 5:
            others.set()
        return item * item

    assert side_by_side(last_first, range(6), done=done.append) == [0, 1, 4, 9, 16, 25]
    assert sorted(done) == list(range(6))
    assert done[0] != 0
    assert side_by_side(last_first, []) == []


@given(st.lists(st.integers(), max_size=20), st.integers(1, 4))
def test_results_are_those_of_a_loop(items: list[int], workers: int) -> None:
    with threads_and_cores(workers):
        assert side_by_side(lambda item: 2 * item, items) == [2 * item for item in items]


@pytest.mark.parametrize(("threads", "cores", "expected"), [(1, 8, 1), (3, 2, 2), (2, 3, 2), (64, 64, MAX_WORKERS)])
def test_no_more_threads_compute_than_there_are(threads: int, cores: int, expected: int) -> None:
    lock, everyone, running, most = Lock(), Barrier(expected), 0, 0

    def counted(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if item < expected:
            # Nobody goes on before all workers are here.
            everyone.wait(10)
        assert (torch.get_num_threads(), blas_threads()) == (1, {1})
        with lock:
            running -= 1
        return item

    with threads_and_cores(threads, cores):
        assert side_by_side(counted, range(20)) == list(range(20))
        assert torch.get_num_threads() == threads
    assert most == expected


def test_a_single_worker_is_the_caller() -> None:
    with threads_and_cores(1):
        assert side_by_side(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]


@pytest.mark.usefixtures("two_workers")
def test_items_are_made_when_a_worker_is_free() -> None:
    made, begun = 0, 0

    def items() -> Iterator[int]:
        nonlocal made
        for number in range(10):
            made += 1
            # The other worker may have taken one that it has not begun.
            assert made <= begun + 2
            yield number

    def begin(item: int) -> int:
        nonlocal begun
        begun += 1
        return item

    assert side_by_side(begin, items()) == list(range(10))


@pytest.mark.usefixtures("two_workers")
def test_workers_report_to_the_caller_and_have_its_settings() -> None:
    reporting: set[threading.Thread] = set()
    with torch.no_grad():
        found = side_by_side(
            lambda _: torch.is_grad_enabled(), range(4), done=lambda _: reporting.add(threading.current_thread())
        )
    assert found == [False] * 4
    assert reporting == {threading.current_thread()}


@pytest.mark.usefixtures("two_workers")
def test_an_error_reaches_the_caller_and_ends_the_rest() -> None:
    begun: list[int] = []

    def fail(item: int) -> None:
        begun.append(item)
        if item == 1:
            raise ValueError(f"item {item}")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="item 1"):
        side_by_side(fail, range(1000))
    assert len(begun) < 1000


@pytest.mark.usefixtures("two_workers")
def test_an_error_while_an_item_is_made_reaches_the_caller() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise ValueError("no item 1")

    with pytest.raises(ValueError, match="no item 1"):
        side_by_side(lambda item: item, items())


@pytest.mark.usefixtures("two_workers")
def test_control_c_reaches_a_caller_that_waits() -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 1:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(1000))
    assert len(begun) < 1000


@pytest.mark.usefixtures("two_workers")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_caller_ends_the_workers(error: type[BaseException]) -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.01)
        return item

    def interrupted(_: int) -> None:
        raise error

    with pytest.raises(error):
        side_by_side(work, range(1000), done=interrupted)
    assert len(begun) < 1000
    assert not [one for one in threading.enumerate() if one.name.startswith("cgsa-part")]


@pytest.mark.usefixtures("two_workers")
def test_inside_a_worker_everything_is_computed_by_it() -> None:
    def inner(item: int) -> list[tuple[int, threading.Thread]]:
        return side_by_side(lambda other: (10 * item + other, threading.current_thread()), range(2))

    for item, found in enumerate(side_by_side(inner, range(4))):
        assert [number for number, _ in found] == [10 * item, 10 * item + 1]
        assert len({thread for _, thread in found}) == 1
        assert found[0][1] is not threading.current_thread()


def test_this_process_has_a_core() -> None:
    assert available_cores() >= 1
