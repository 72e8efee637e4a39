from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cgsa.bench.readings.choose import ScoredReading, choose_reading
from cgsa.bench.readings.grid import Reading
from cgsa.bench.readings.statements import STATEMENTS, SeedResult
from cgsa.profile import Profile

NAMES = ("Baseline", "DANN", "CAL", "CAL+CF", "CAL+RCG", "CGSA")
AS_IN_THE_PAPER = SeedResult(
    totals=dict(zip(NAMES, (0.779, 0.862, 0.868, 0.903, 0.910, 0.918), strict=True)),
    joined=dict.fromkeys(NAMES, 0.9),
    known=dict.fromkeys(NAMES, 0.95),
    fifths=(0.95, 0.9, 0.9, 0.8, 0.7),
    rejected=0.3,
)
NAN = float("nan")


def held(result: SeedResult) -> list[bool]:
    return [statement.holds(result) for statement in STATEMENTS]


def with_total(**totals: float) -> SeedResult:
    changed = {name.replace("_", "+"): value for name, value in totals.items()}
    return replace(AS_IN_THE_PAPER, totals={**AS_IN_THE_PAPER.totals, **changed})


def test_all_statements_hold_for_the_papers_own_figures() -> None:
    assert all(held(AS_IN_THE_PAPER))


@pytest.mark.parametrize(
    ("result", "failing"),
    [
        (with_total(DANN=0.87), 0),
        (with_total(Baseline=0.87), 0),
        (replace(AS_IN_THE_PAPER, fifths=(0.95, 0.9, 0.91, 0.8, 0.7)), 1),
        (replace(AS_IN_THE_PAPER, fifths=(0.9,) * 5), 1),
        (replace(AS_IN_THE_PAPER, fifths=(0.9, NAN, 0.8, 0.7, 0.6)), 1),
        (replace(AS_IN_THE_PAPER, rejected=0.01), 2),
        (replace(AS_IN_THE_PAPER, rejected=0.7), 2),
        (with_total(CAL_RCG=0.92), 3),
        (with_total(CAL_CF=0.868), 3),
        (replace(AS_IN_THE_PAPER, known={**AS_IN_THE_PAPER.known, "CGSA": 0.93}), 4),
    ],
)
def test_each_statement_fails_on_its_own(result: SeedResult, failing: int) -> None:
    assert [place for place, holds in enumerate(held(result)) if not holds] == [failing]


def scored(name: str, *seeds: SeedResult, fits: bool = True, epochs: int = 12) -> ScoredReading:
    profile = Profile.load("paper", {"train": {"epochs": epochs}})
    return ScoredReading(Reading(name, {}), profile, fits, dict(enumerate(seeds)))


GOOD, BAD = AS_IN_THE_PAPER, replace(AS_IN_THE_PAPER, rejected=0.0)
BETTER = with_total(CGSA=0.95)


def chosen(*readings: ScoredReading) -> str | None:
    found = choose_reading(readings, 2)
    return None if found is None else found.reading.name


def test_most_statements_over_all_seeds_win() -> None:
    assert chosen(scored("a", GOOD, BAD), scored("b", GOOD, GOOD)) == "b"
    assert scored("a", GOOD, BAD).holds == (2, 2, 1, 2, 2)


def test_unfinished_readings_and_other_parameter_counts_are_not_eligible() -> None:
    assert chosen(scored("a", BETTER, BETTER, fits=False), scored("b", BETTER), scored("c", BAD, BAD)) == "c"
    assert chosen(scored("a", BETTER, BETTER, fits=False), scored("b")) is None


def test_among_equals_the_papers_epochs_and_then_the_gain_decide() -> None:
    assert chosen(scored("a", GOOD, GOOD), scored("b", BETTER, BETTER)) == "b"
    assert chosen(scored("a", GOOD, GOOD, epochs=200), scored("b", BETTER, BETTER)) == "a"
    assert math.isnan(scored("a").gain)
