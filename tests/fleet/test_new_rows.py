from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgsa.events import Note
from cgsa.fleet.new_rows import HOLD_SECONDS, NewRows


class Rows:
    """What is committed of a table."""

    def __init__(self) -> None:
        self.committed: set[int] = set()

    def newest_id(self, _: object) -> int:
        return max(self.committed, default=0)

    def ids_after(self, _: object, after: int) -> list[int]:
        return sorted(one for one in self.committed if one > after)

    def rows_from(self, _: object, begin: int, limit: int) -> list[tuple[int, int]]:
        return [(one, one) for one in sorted(self.committed) if one >= begin][:limit]


@given(
    known=st.integers(0, 5),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0.0, 4.0)), max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_each_row_is_read_once_in_whatever_order_transactions_end(
    known: int, steps: list[tuple[int, int, float]], order: object
) -> None:
    """Each step takes some ids, commits some of those taken, and lets time pass."""
    rows, now = Rows(), 0.0
    rows.committed.update(range(1, known + 1))
    reader: NewRows[Note] = NewRows(Note, lambda: now)
    found: list[object] = list(reader.read(rows))  # type: ignore[arg-type]
    assert found == []
    newest, taken = known, list[tuple[int, float]]()
    for takes, commits, seconds in steps:
        taken += [(newest + number + 1, now) for number in range(takes)]
        newest += takes
        order.shuffle(taken)  # type: ignore[attr-defined]
        # Nobody holds an id for longer than is waited for.
        late = [one for one in taken if now + seconds - one[1] >= HOLD_SECONDS]
        chosen = [*late, *[one for one in taken if one not in late][:commits]]
        rows.committed |= {number for number, _ in chosen}
        taken = [one for one in taken if one not in chosen]
        found += reader.read(rows)  # type: ignore[arg-type]
        now += seconds
    rows.committed |= {number for number, _ in taken}
    found += reader.read(rows)  # type: ignore[arg-type]
    assert sorted(found) == list(range(known + 1, newest + 1))  # type: ignore[type-var]
