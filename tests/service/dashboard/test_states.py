from __future__ import annotations

from cgsa.live.state_file import SavedState
from cgsa.service.dashboard.states import state_rows


def saved(number: int, windows: int, learnt: int, *, frozen: bool = False) -> SavedState:
    about = {"watch": {"frozen": frozen, "counts": {"windows": windows, "learnt": learnt}}}
    return SavedState(number, 10 * number, float(number), 1000, "", about)


def test_each_state_has_its_changes_since_the_previous_one() -> None:
    found = state_rows([saved(1, 100, 10), saved(2, 1400, 60), saved(4, 1500, 60, frozen=True)])
    assert [row.number for row in found] == [4, 2, 1]
    assert [row.change for row in found] == [
        "100 windows diagnosed, 0 used for learning; learning frozen",
        "1,300 windows diagnosed, 50 used for learning",
        "oldest saved state",
    ]


def test_a_state_without_counts_is_listed_with_zeros() -> None:
    (row,) = state_rows([SavedState(1, 0, 0.0, 10, "", {})])
    assert (row.windows, row.learnt, row.frozen) == (0, 0, False)
