"""Threads for compiled functions that let others run meanwhile: as many as PyTorch takes, and none waits busily."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pool: ThreadPoolExecutor | None = None


def share_out(work: Callable[[int, int], None], count: int, grain: int) -> None:
    """Let threads do a share of the places 0 to count - 1 each, in whole grains; return when all are done."""
    shares = max(1, min(torch.get_num_threads(), count // grain))
    borders = [count // grain * share // shares * grain for share in range(shares)] + [count]
    others = [_threads().submit(work, *borders[share : share + 2]) for share in range(1, shares)]
    work(borders[0], borders[1])
    for other in others:
        other.result()


def _threads() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603, threads are shared by all who have work
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="cgsa-share")
    return _pool


def _forget() -> None:
    global _pool  # noqa: PLW0603, as above
    _pool = None


# The threads of a process do not go along when it is forked.
os.register_at_fork(after_in_child=_forget)
