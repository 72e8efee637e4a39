"""Independent parts of a computation, side by side: each by a thread of its own that uses one core.

Threads share the data, need no functions that can be pickled, and start wherever Python runs: in notebooks, in tests
and in scripts without a main guard. The numerical libraries release Python's lock while they compute. What is computed
does not depend on how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Lock, local
from typing import Generic, TypeVar

import torch

from cgsa.engines.single_threaded import single_threaded

T = TypeVar("T")
R = TypeVar("R")
MAX_WORKERS = 8
"""Each has its own copy of some of the data: more of them would need more memory, and wait for Python's lock."""


def side_by_side(function: Callable[[T], R], items: Iterable[T], *, done: Callable[[T], None] | None = None) -> list[R]:
    """Return ``function(item)`` for every item, in their order.

    There are as many workers as PyTorch has threads, and no more than cores; inside a worker there is only itself. If
    an item fails, or the caller is interrupted, no further item is begun, and the error is raised when the workers have
    finished theirs.

    Parameters
    ----------
    function
        Must not change what items share.
    items
        Made one by one: a worker takes the next when it is free, one worker at a time.
    done
        Receives every item that is done, in the thread of the caller.
    """
    if _this_thread.is_worker:
        return list(_one_by_one(function, items, done))
    with single_threaded() as threads:
        workers = min(threads, available_cores(), MAX_WORKERS)
        if workers == 1:
            return list(_one_by_one(function, items, done))
        return _Workers(function, items).results(workers, done)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if affinity is None else len(affinity(0))


class _ThisThread(local):
    is_worker = False


_this_thread = _ThisThread()


def _one_by_one(function: Callable[[T], R], items: Iterable[T], done: Callable[[T], None] | None) -> Iterator[R]:
    for item in items:
        yield function(item)
        if done is not None:
            done(item)


class _Workers(Generic[T, R]):
    """Threads that take the next item when they are free."""

    def __init__(self, function: Callable[[T], R], items: Iterable[T]) -> None:
        self._function, self._items = function, enumerate(items)
        self._taking, self._stopped = Lock(), Event()
        self._finished: SimpleQueue[tuple[int, T, R] | None] = SimpleQueue()
        """What is done, and None when a worker ends."""

    def results(self, workers: int, done: Callable[[T], None] | None) -> list[R]:
        """Compute all items."""
        found: dict[int, R] = {}
        with ThreadPoolExecutor(workers, "cgsa-part", _begin_worker, (torch.is_grad_enabled(),)) as pool:
            try:
                running = [pool.submit(self._work) for _ in range(workers)]
                for _ in running:
                    # Until one of the workers ends.
                    while (finished := self._finished.get()) is not None:
                        number, item, found[number] = finished
                        if done is not None:
                            done(item)
            finally:
                self._stopped.set()
        for worker in running:
            worker.result()
        return [found[number] for number in range(len(found))]

    def _work(self) -> None:
        try:
            while not self._stopped.is_set() and (taken := self._take()) is not None:
                number, item = taken
                self._finished.put((number, item, self._function(item)))
        except BaseException:
            self._stopped.set()
            raise
        finally:
            self._finished.put(None)

    def _take(self) -> tuple[int, T] | None:
        with self._taking:
            return next(self._items, None)


def _begin_worker(grad: bool) -> None:  # noqa: FBT001 - an initializer gets its arguments by position
    """Set in a new thread what PyTorch keeps for every thread."""
    _this_thread.is_worker = True
    torch.set_num_threads(1)
    torch.set_grad_enabled(grad)
