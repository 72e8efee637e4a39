from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.evaluation.approach_figures import ApproachFigures
from cgsa.report.demo_headline import what_happened, who_is_right

NAMES = ("the first", "the second", "the third")


def figures(
    verdicts: float = 1.0,
    *,
    alarms: int = 0,
    delay: float | None = 1.0,
    named: float | None = 1.0,
    standing: bool = False,
    healthy: float = 1.0,
    faulty: float = 1.0,
) -> ApproachFigures:
    return ApproachFigures(verdicts, verdicts, healthy, faulty, alarms, standing, delay, named, 0.1)


def any_figures() -> st.SearchStrategy[ApproachFigures]:
    shares = st.floats(0, 1) | st.just(float("nan"))
    delays = st.none() | st.floats(0, 20)
    return st.builds(
        ApproachFigures, st.floats(0, 1), st.floats(0, 1), shares, shares, st.integers(0, 30), st.booleans(), delays,
        delays, st.floats(0, 1),
    )  # fmt: skip


@pytest.mark.parametrize("right", list(product([False, True], repeat=3)))
def test_those_that_are_right_are_named_and_no_others(right: tuple[bool, ...]) -> None:
    found = [figures() if good else figures(0.5 + place / 10) for place, good in enumerate(right)]
    text = who_is_right(NAMES, found).lower()
    if all(right):
        assert text == "all 3 are right here."
    elif not any(right):
        assert text == "none of the 3 is right; the third is closest."
    else:
        praised, blamed = text.split(";")
        assert [name in praised for name in NAMES] == list(right)
        assert [name in blamed for name in NAMES] == [not good for good in right]
        assert praised.startswith("only") == (sum(right) == 1)


@given(st.lists(any_figures(), min_size=1, max_size=5))
def test_every_approach_has_its_clause_and_no_figure_is_left_out(found: list[ApproachFigures]) -> None:
    names = [f"number {place}" for place in range(len(found))]
    text = what_happened(names, found, "gear wear")
    clauses = text.lower().removesuffix(".").split("; ")
    assert len(clauses) == len(found)
    for name, one, clause in zip(names, found, clauses, strict=True):
        assert clause.startswith(f"{name} is wrong for ")
        assert (f"{one.false_alarms} false alarm" if one.false_alarms else "no false alarm") in clause
        assert "gear wear" in clause
        assert "nan" not in clause
    assert who_is_right(names, found).endswith(".")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (figures(healthy=0.68, faulty=0.99), "is wrong for 32% of the healthy time and 1% of the faulty time,"),
        (figures(healthy=0.995, faulty=0.9), "is wrong for 10% of the faulty time,"),
        (figures(healthy=0.999, faulty=1.0), "is wrong for less than 1% of the time,"),
        (figures(alarms=1), "raises 1 false alarm,"),
        (figures(alarms=2), "raises 2 false alarms,"),
        (figures(named=1.25, delay=0.5), "names the wear after 1.25 s."),
        (figures(named=None), "never names the wear."),
        (figures(named=None, delay=None), "never notices the wear."),
        (figures(standing=True, delay=0.0, named=0.0), "has its alarm on before the wear sets in."),
    ],
)
def test_what_happened_follows_from_the_figures(found: ApproachFigures, text: str) -> None:
    assert text in what_happened(["it"], [found], "wear")
