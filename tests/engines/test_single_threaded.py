from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch

from cgsa.engines.single_threaded import single_threaded
from tests.threads import blas_threads, threads_and_cores


def test_libraries_have_one_thread_and_then_as_many_as_before() -> None:
    before = blas_threads()
    with threads_and_cores(2):
        with single_threaded() as threads:
            assert threads == 2
            assert (torch.get_num_threads(), blas_threads()) == (1, {1})
            with single_threaded() as inner:
                assert inner == 2
            assert (torch.get_num_threads(), blas_threads()) == (1, {1})
        assert (torch.get_num_threads(), blas_threads()) == (2, before)


def test_an_error_restores_the_threads() -> None:
    with threads_and_cores(2):
        with pytest.raises(ZeroDivisionError), single_threaded():
            raise ZeroDivisionError
        with single_threaded() as threads:
            assert threads == 2
        assert torch.get_num_threads() == 2


def test_another_thread_waits_and_then_finds_the_same() -> None:
    order: list[str] = []

    def other() -> None:
        with single_threaded() as threads:
            order.append(f"other: {threads}")
            assert (torch.get_num_threads(), blas_threads()) == (1, {1})

    before = blas_threads()
    with threads_and_cores(2), ThreadPoolExecutor(1) as pool:
        with single_threaded():
            waiting = pool.submit(other)
            assert not wait([waiting], 0.05).done
            order.append("first")
        waiting.result(10)
        assert order == ["first", "other: 2"]
        assert (torch.get_num_threads(), blas_threads()) == (2, before)
