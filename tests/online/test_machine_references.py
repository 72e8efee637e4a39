from __future__ import annotations

from math import isnan

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.online.machine_references import MAX_REFERENCES, SAME_CONDITION, MachineReferences

RANGES = torch.tensor([10.0, 100.0], dtype=torch.float64)
DEVICE = torch.device("cpu")
VALUES = st.floats(0, 1) | st.just(float("nan"))
Point = tuple[float, float]


def taken_at(*points: Point) -> MachineReferences:
    """References whose shift is their number."""
    found = MachineReferences.empty(2, 3, 2, 4, DEVICE)
    for number, point in enumerate(points):
        where = torch.tensor(point, dtype=torch.float64)
        found = found.with_added(
            torch.full((2, 3), float(number)),
            torch.tensor(float(number)),
            where,
            torch.full((4,), float(number)),
            RANGES,
        )
    return found


def difference(a: Point, b: Point) -> float:
    shares = [abs(x - y) / size for x, y, size in zip(a, b, RANGES.tolist(), strict=True)]
    return max((share for share in shares if not isnan(share)), default=0.0)


def literal_references(points: list[Point]) -> list[int]:
    kept: list[int] = []
    for number, point in enumerate(points):
        kept = [*(other for other in kept if difference(points[other], point) > SAME_CONDITION), number]
        kept = kept[-MAX_REFERENCES:]
    return kept


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20), st.lists(st.tuples(VALUES, VALUES), max_size=5))
def test_references_against_loops(taken: list[Point], asked: list[Point]) -> None:
    points = [(10 * a, 100 * b) for a, b in taken]
    found, kept = taken_at(*points), literal_references(points)
    assert found.distances.tolist() == kept
    assert found.shifts[:, 1, 2].tolist() == kept
    assert found.known_starts[:, 3].tolist() == kept
    windows = [(10 * a, 100 * b) for a, b in asked]
    nearest = found.nearest(torch.tensor(windows, dtype=torch.float64).reshape(-1, 2), len(windows), RANGES)
    for window, place in zip(windows, nearest.tolist(), strict=True):
        gaps = [difference(points[number], window) for number in kept]
        assert gaps[place] == min(gaps)
        assert place == max(number for number, gap in enumerate(gaps) if gap == min(gaps))


def test_windows_without_conditions_use_the_newest_reference() -> None:
    assert taken_at((0.0, 0.0), (10.0, 0.0)).nearest(None, 3, RANGES).tolist() == [1, 1, 1]


def test_a_reference_without_a_condition_replaces_all() -> None:
    found = taken_at((0.0, 0.0), (10.0, 0.0), (float("nan"), float("nan")))
    assert found.distances.tolist() == [2.0]


def test_only_the_newest_references_are_kept() -> None:
    found = taken_at(*((10.0 * number, 0.0) for number in range(MAX_REFERENCES + 3)))
    assert found.distances.tolist() == [float(number) for number in range(3, MAX_REFERENCES + 3)]


def test_a_reference_from_a_history_has_no_start() -> None:
    found = taken_at((0.0, 0.0))
    where, unknown = torch.tensor([10.0, 0.0], dtype=torch.float64), torch.full((4,), torch.nan)
    both = found.with_added(torch.ones(2, 3), torch.tensor(1.0), where, unknown, RANGES)
    assert len(both) == 2
    assert both.known_starts.tolist() == [[0.0] * 4]
    assert not len(MachineReferences.empty(2, 3, 2, 0, DEVICE).known_starts)
