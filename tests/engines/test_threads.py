from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.engines.threads import share_out


@given(count=st.integers(0, 300), grain=st.sampled_from([1, 7, 32]), threads=st.integers(1, 5))
def test_every_place_is_done_once_and_in_whole_grains(count: int, grain: int, threads: int) -> None:
    done: list[tuple[int, int]] = []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        share_out(lambda begin, end: done.append((begin, end)), count, grain)
    finally:
        torch.set_num_threads(before)
    places = [place for begin, end in sorted(done) for place in range(begin, end)]
    assert places == list(range(count))
    assert all(begin % grain == 0 for begin, _ in done)
    assert len(done) <= threads


def test_what_goes_wrong_in_a_share_is_told() -> None:
    def work(begin: int, _end: int) -> None:
        if begin:
            raise ValueError("no")

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="no"):
            share_out(work, 10, 1)
    finally:
        torch.set_num_threads(before)


def test_a_forked_process_has_threads_of_its_own() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        share_out(lambda _begin, _end: None, 10, 1)
        child = os.fork()
        if child == 0:
            share_out(lambda _begin, _end: None, 10, 1)
            os._exit(7)
    finally:
        torch.set_num_threads(before)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
