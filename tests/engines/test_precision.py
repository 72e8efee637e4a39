from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
import torch

from cgsa.engines.precision import matmul_precision

GPU = torch.device("cuda")


@pytest.fixture(autouse=True)
def default_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def test_threads_that_overlap_keep_their_precision_and_restore_the_setting() -> None:
    """The first thread leaves while the second still works: neither changes what the other one, or the rest, sees."""
    both_inside, first_left = Barrier(2, timeout=10), Event()
    seen: list[str] = []

    def first() -> None:
        with matmul_precision("high", GPU):
            both_inside.wait()
        first_left.set()

    def second() -> None:
        with matmul_precision("high", GPU):
            both_inside.wait()
            assert first_left.wait(timeout=10)
            seen.append(torch.get_float32_matmul_precision())

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result(timeout=20)
    assert seen == ["high"]
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_thread_in_float32_waits_for_those_in_tf32() -> None:
    inside, leave = Event(), Event()

    def in_tf32() -> None:
        with matmul_precision("high", GPU):
            inside.set()
            assert leave.wait(timeout=10)

    def in_float32() -> str:
        with matmul_precision("highest", GPU):
            return torch.get_float32_matmul_precision()

    with ThreadPoolExecutor(2) as pool:
        fast = pool.submit(in_tf32)
        assert inside.wait(timeout=10)
        exact = pool.submit(in_float32)
        with pytest.raises(TimeoutError):
            exact.result(timeout=0.1)
        leave.set()
        assert exact.result(timeout=10) == "highest"
        fast.result(timeout=10)


def test_contexts_nest_if_they_agree() -> None:
    with matmul_precision("high", GPU):
        with matmul_precision("high", GPU), matmul_precision("highest", torch.device("cpu")):
            assert torch.get_float32_matmul_precision() == "high"
        with pytest.raises(RuntimeError, match="highest inside a context of precision high"):
            matmul_precision("highest", GPU).__enter__()
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_cpu_needs_no_setting() -> None:
    with matmul_precision("high", torch.device("cpu")):
        assert torch.get_float32_matmul_precision() == "highest"
