from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.offline.parts import MAX_PARTS, Part, held_out_parts


def parts_of(conditions: list[list[float]], machines: list[int]) -> list[tuple[Part, list[int]]]:
    values = torch.tensor(conditions, dtype=torch.float64).reshape(len(machines), -1)
    found = held_out_parts(values, torch.tensor(machines))
    return [(one.part, one.mask.nonzero().flatten().tolist()) for one in found]


def test_levels_and_specimens_are_held_out_in_turn() -> None:
    assert parts_of([[0.0], [5.0], [10.0], [5.02]], [1, 1, 2, 2]) == [
        (Part("level", ((0, 0.0, 0.0),), outermost=True), [0]),
        (Part("level", ((0, 5.0, 5.02),)), [1, 3]),
        (Part("level", ((0, 10.0, 10.0),), outermost=True), [2]),
        (Part("specimen", specimen=1, one_of_two=True), [0, 1]),
        (Part("specimen", specimen=2, one_of_two=True), [2, 3]),
    ]
    assert not any(part.one_of_two for part, _ in parts_of([[0.0]] * 3, [1, 2, 3]))


def test_combinations_are_held_out_and_one_of_two_levels_is_marked() -> None:
    # A condition that never changes is none.
    found = parts_of([[0.0, 7.0, 1.0], [0.0, 7.0, 2.0], [5.0, 7.0, 1.0], [5.0, 7.0, 2.0]], [1] * 4)
    assert [(part.kind, part.one_of_two, where) for part, where in found] == [
        ("level", True, [0, 1]),
        ("level", True, [2, 3]),
        ("level", True, [0, 2]),
        ("level", True, [1, 3]),
        ("combination", False, [0]),
        ("combination", False, [1]),
        ("combination", False, [2]),
        ("combination", False, [3]),
    ]
    assert found[5][0].levels == ((0, 0.0, 0.0), (2, 2.0, 2.0))


def test_conditions_that_change_together_are_held_out_once() -> None:
    assert parts_of([[0.0, 9.0], [1.0, 8.0]], [1, 1]) == [
        (Part("level", ((0, 0.0, 0.0), (1, 9.0, 9.0)), outermost=True, one_of_two=True), [0]),
        (Part("level", ((0, 1.0, 1.0), (1, 8.0, 8.0)), outermost=True, one_of_two=True), [1]),
    ]


def test_one_level_of_one_specimen_leaves_nothing_to_hold_out() -> None:
    assert parts_of([[3.0], [3.0]], [1, 1]) == []
    assert parts_of([[], []], [1, 1]) == []


def test_of_many_combinations_and_specimens_some_are_held_out() -> None:
    grid = [[float(speed), float(load)] for speed in range(6) for load in range(5)]
    found = parts_of(grid, list(range(30)))
    kinds = [part.kind for part, _ in found]
    assert kinds.count("level") == 11
    for kind in ("combination", "specimen"):
        rows = [where[0] for part, where in found if part.kind == kind]
        assert len(rows) == MAX_PARTS
        assert rows[0] == 0
        assert rows[-1] == 29
        assert all(2 <= late - early <= 3 for early, late in pairwise(rows))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=20))
def test_no_part_is_empty_or_everything_or_held_out_twice(rows: list[tuple[int, int, int]]) -> None:
    found = parts_of([[float(a), float(b)] for a, b, _ in rows], [machine for _, _, machine in rows])
    assert all(0 < len(where) < len(rows) for _, where in found)
    conditions = [tuple(where) for part, where in found if part.kind != "specimen"]
    assert len(set(conditions)) == len(conditions)
