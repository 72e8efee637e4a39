"""Threads for compiled functions that release the GIL: as many as PyTorch uses, none of which waits actively."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def share_out(work: Callable[[int, int], None], count: int, grain: int) -> None:
    """Split the range 0 to count - 1 into one part per thread, in multiples of ``grain``; return when all are done."""
    shares = max(1, min(torch.get_num_threads(), count // grain))
    borders = [count // grain * share // shares * grain for share in range(shares)] + [count]
    others = [_pool().submit(work, *borders[share : share + 2]) for share in range(1, shares)]
    work(borders[0], borders[1])
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="cgsa-share")


# A forked process does not inherit threads.
os.register_at_fork(after_in_child=_pool.cache_clear)
