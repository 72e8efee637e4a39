"""Numerical libraries without threads of their own: a setting of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from threadpoolctl import threadpool_limits


class ThreadLimit:
    """Makes the libraries under NumPy, SciPy and PyTorch compute with one thread.

    Their idle threads spin while they wait for the next short step, which takes the processor from the busy ones. And a
    sum that threads share depends in its last digits on their number.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._inside = False
        self._threads = 1

    @contextmanager
    def __call__(self) -> Iterator[int]:
        """Limit the libraries, and yield how many threads they used before.

        One thread is inside at a time, any number of times; others wait for it. The processor is busy anyway, and none
        of them could restore what another one needs.
        """
        with self._lock:
            if self._inside:
                yield self._threads
                return
            self._inside, self._threads = True, torch.get_num_threads()
            try:
                with threadpool_limits(limits=1, user_api="blas"):
                    torch.set_num_threads(1)
                    yield self._threads
            finally:
                torch.set_num_threads(self._threads)
                self._inside = False


single_threaded = ThreadLimit()
