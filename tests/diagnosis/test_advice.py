from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.scenario import Condition
from cgsa.diagnosis.advice import advice, best_figure, good_range
from cgsa.nn.assessment import Assessment, HeldOutResult
from tests.assessments import assessment, levels, result

SPEED = (Condition("speed_rpm", "rpm", 600, 3000, 1),)
RIGHT = "of the verdicts were right at conditions held out of training"
LATEST = result("latest", "last quarter", 100, verdicts=100)


def said(results: list[HeldOutResult], *, speeds: int = 5, specimens: int = 1, repeats: int = 2) -> list[str]:
    return advice(assessment(results, speeds=speeds, specimens=specimens, repeats=repeats), SPEED)


def test_a_model_that_predicts_every_level_is_good_for_the_whole_range() -> None:
    assert said([*levels(100, 98, 98, 98, 100), LATEST]) == [f"Good for speed 600 to 3000 rpm: 0.99 {RIGHT}."]


def test_beyond_the_range_less_is_expected_where_less_was_seen() -> None:
    [sentence] = said(levels(50, 100, 100, 100, 50))
    assert sentence.endswith("; beyond, 0.75 is expected.")


def test_a_model_is_good_only_where_levels_are_predicted() -> None:
    assert said(levels(100, 100, 100, 60, 100)) == [
        f"Good for speed 600 to 1800 rpm, not around speed 2400 rpm (0.80): 0.93 {RIGHT}."
    ]
    assert said(levels(100, 100, 20, 20, 100)) == [f"Do not rely on this outside speed 600 to 1200 rpm: 0.73 {RIGHT}."]


def test_a_poor_model_is_not_to_be_relied_on() -> None:
    [sentence] = said(levels(100, 40, 40, 40, 100))
    assert sentence.startswith("Do not rely on this: 0.70 of the verdicts")
    [sentence] = said(levels(100, 80, 80, 80, 100))
    assert sentence.startswith("Use with care: 0.90 of the verdicts")


def test_combinations_alone_say_nothing_about_other_levels() -> None:
    found = said([*levels(20, 20), *(result("combination", str(place), 100) for place in range(4))], speeds=2)
    assert found == [
        f"Good for other combinations of the trained levels: 1.00 {RIGHT}.",
        "Two levels of speed are few (0.60 of the verdicts were right at one by a model of the other): record a third.",
    ]


def test_two_levels_are_few() -> None:
    first, second = said([*levels(40, 60), LATEST], speeds=2)
    assert first.startswith("Do not rely on this at other conditions: 0.75 of the verdicts were right at one level by")
    assert second == "Two levels of speed are few: record a third."
    assert said([*levels(100, 100), LATEST], speeds=2)[0].startswith("Promising at other conditions: 1.00")


def test_one_level_is_too_few() -> None:
    first, second = said([LATEST], speeds=1)
    assert first.startswith("Do not rely on this at other conditions: training holds one; 1.00 of the verdicts")
    assert second == "One level of speed is too few: record at least two more."
    assert said([], speeds=1)[0] == "Do not rely on this: training holds too little to hold any of it out."


@pytest.mark.parametrize(
    ("right", "begin"),
    [
        (50, "Do not rely on this for another unit or run: 0.75"),
        (80, "Use with care for"),
        (100, "Good for another unit or run"),
    ],
)
def test_another_unit_has_its_own_sentence(right: int, begin: str) -> None:
    units = [result("specimen", f"specimen {number}", right) for number in (1, 2, 3)]
    found = said([*levels(100, 95, 100), *units], specimens=3)
    # The worse of both comes first.
    assert found[0 if right < 95 else 1].startswith(begin)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("unit", "Good for another unit: 1.00 of the verdicts were right on units held out of training."),
        (
            "run",
            (
                "Good for another run of the same machine: 1.00 of the verdicts were right on runs held out of "
                "training; another unit was not tested."
            ),
        ),
    ],
)
def test_runs_say_nothing_about_another_unit(kind: str, sentence: str) -> None:
    specimens = [result("specimen", f"specimen {number}", 100) for number in (1, 2)]
    found = assessment([*levels(100, 95, 100), *specimens], specimens=2).with_specimens(kind)
    assert sentence in advice(found, SPEED)
    assert advice(found, SPEED)[-1].startswith(f"Two {kind}s are few")
    assert [one.name for one in found.results[-2:]] == [f"{kind} 1", f"{kind} 2"]
    assert [one.name for one in found.results[:3]] == [one.name for one in levels(100, 95, 100)]


def test_what_to_record_depends_on_what_is_missing_most() -> None:
    good = levels(100, 100, 100)
    assert said(good, repeats=1)[-1] == "One recording per class and condition: record each on another day."
    assert said(good, specimens=2)[-1].startswith("Two specimens are few")
    assert said(good, speeds=2, repeats=1)[-1] == "Two levels of speed are few: record a third."
    assert len(said(good)) == 1


def test_verdicts_count_before_single_windows() -> None:
    assert best_figure(result("level", "one", 100, verdicts=60)) == 0.8
    assert best_figure(result("level", "one", 60)) == 0.8


def test_a_good_range_is_the_longest_run_with_the_outermost_levels_beside_it() -> None:
    assert good_range(levels(0, 100, 0, 100, 100, 0)) == (2400.0, 3600.0)
    assert good_range(levels(0, 100, 0)) == (600.0, 1800.0)
    assert good_range(levels(100, 0, 100)) is None
    assert good_range([]) is None


@given(
    st.lists(st.integers(0, 100), max_size=6),
    st.lists(st.integers(0, 100), max_size=3),
    st.sampled_from([[], [LATEST]]),
    st.integers(1, 4),
    st.integers(1, 2),
)
def test_three_sentences_are_enough(
    rights: list[int], units: list[int], latest: list[HeldOutResult], speeds: int, repeats: int
) -> None:
    held_out = levels(*rights) if len(rights) > 1 else []
    specimens = [result("specimen", f"specimen {number}", right) for number, right in enumerate(units)]
    found: Assessment = assessment(
        [*held_out, *specimens, *latest],
        speeds=speeds,
        specimens=max(1, len(units)),
        repeats=repeats,
    )
    sentences = advice(found, SPEED)
    assert 1 <= len(sentences) <= 3
    assert all(sentence.endswith(".") for sentence in sentences)
