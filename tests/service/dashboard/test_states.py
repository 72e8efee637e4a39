from __future__ import annotations

from cgsa.live.checkpoint import SavedState
from cgsa.service.dashboard.states import state_rows


def saved(number: int, windows: int, learnt: int, *, frozen: bool = False) -> SavedState:
    about = {"watch": {"frozen": frozen, "counts": {"windows": windows, "learnt": learnt}}}
    return SavedState(number, 10 * number, float(number), 1000, "", about)


def test_tells_what_changed_from_state_to_state() -> None:
    found = state_rows([saved(1, 100, 10), saved(2, 1400, 60), saved(4, 1500, 60, frozen=True)])
    assert [row.number for row in found] == [4, 2, 1]
    assert [row.what for row in found] == [
        "100 windows seen, 0 learnt from; learning frozen",
        "1,300 windows seen, 50 learnt from",
        "the oldest that is kept",
    ]


def test_a_state_that_says_nothing_is_shown_all_the_same() -> None:
    (row,) = state_rows([SavedState(1, 0, 0.0, 10, "", {})])
    assert (row.windows, row.learnt, row.frozen) == (0, 0, False)
