"""A number of threads and cores, whatever computer this is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from threadpoolctl import threadpool_info

from cgsa.engines import side_by_side


@contextmanager
def threads_and_cores(threads: int, cores: int | None = None) -> Iterator[None]:
    """Let PyTorch have some threads, and the process some cores; by default one for each thread."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "available_cores", lambda: threads if cores is None else cores)
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def blas_threads() -> set[int]:
    """Return how many threads the libraries of linear algebra use."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
