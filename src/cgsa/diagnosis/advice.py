"""What a model is good for, in plain words: at most three sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from cgsa.data.levels import quantity_name, range_name
from cgsa.data.scenario import Condition
from cgsa.nn.assessment import (
    BEYOND,
    LATER,
    LEVEL,
    ONE_LEVEL,
    OTHER_SPECIMEN,
    WITHIN,
    Assessment,
    Estimate,
    HeldOutResult,
)
from cgsa.nn.change import ChangeAssessment

GOOD = 0.95
"""Share of right verdicts from which a model is good."""
LEAST = 0.85
"""Share of right verdicts below which nobody should rely on a model."""


def advice(assessment: Assessment, conditions: Sequence[Condition]) -> list[str]:
    """Return what a model is good for, worst first, and then what to record."""
    found = [_new_condition(assessment, conditions), _other_specimen(assessment)]
    known = sorted((one for one in found if one is not None), key=lambda one: one[0])
    recordings = _what_to_record(assessment, conditions)
    return [*(sentence for _, sentence in known), *([recordings] if recordings else [])]


def healthy_only_advice(assessment: ChangeAssessment) -> list[str]:
    """Return what is known of a model that was trained on healthy recordings alone."""
    share, worst, parts = assessment.false_share, assessment.worst, len(assessment.covered)
    unmeasured = "Whether it detects faults was not measured: no fault was recorded."
    if share is None or worst is None:
        return [unmeasured]
    where = "" if worst.false_share == 0 else f", most at {worst.name} ({worst.false_share:.2f})"
    taken = f"{share:.3f} of the healthy windows were taken for changed in parts held out of training"
    found = [f"{taken}, with the limit of the others ({parts} held out in turn){where}."]
    if assessment.limiting is not None:
        found.append(f"The limit of the model is that of {assessment.limiting}, the farthest from the others.")
    beyond = max(assessment.beyond, key=lambda one: one.false_share, default=None)
    if beyond is not None and beyond.false_share > 0.5:
        found.append(
            f"At a level that no recording has, expect false alarms: without {beyond.name}, {beyond.false_share:.2f} "
            f"of the healthy windows there were taken for changed."
        )
    return [*found, unmeasured]


def best_figure(one: Estimate | HeldOutResult) -> float:
    """Return the accuracy of joined verdicts, or of single windows where none was joined."""
    return one.accuracy or 0.0 if one.verdict_accuracy is None else one.verdict_accuracy


def _new_condition(assessment: Assessment, conditions: Sequence[Condition]) -> tuple[float, str] | None:
    estimates, expected = assessment.estimates, assessment.new_condition
    if expected is None or expected.scope == ONE_LEVEL:
        return _little_known(estimates)
    figure, beyond = best_figure(expected), estimates.get(BEYOND)
    limits = "" if beyond is None or best_figure(beyond) >= GOOD else f"; beyond, {best_figure(beyond):.2f} is expected"
    ranges = _good_ranges(assessment, conditions)
    right = f"{figure:.2f} of the verdicts were right at conditions held out of training"
    if figure < LEAST:
        return figure, f"Do not rely on this{f' outside {ranges}' if ranges else ''}: {right}."
    if ranges:
        weak = [one for one in assessment.within(WITHIN) if one.kind == LEVEL and best_figure(one) < GOOD]
        worst = min(weak, key=best_figure, default=None)
        but = "" if worst is None else f", not around {worst.name} ({best_figure(worst):.2f})"
        return figure, f"Good for {ranges}{but}: {right}{limits}."
    if figure >= GOOD:
        return figure, f"Good for other combinations of the trained levels: {right}{limits}."
    return figure, f"Use with care: {right}{limits}."


def _little_known(estimates: dict[str, Estimate]) -> tuple[float, str]:
    if ONE_LEVEL in estimates:
        figure = best_figure(estimates[ONE_LEVEL])
        word = "Promising at other conditions" if figure >= GOOD else "Do not rely on this at other conditions"
        return figure, f"{word}: {figure:.2f} of the verdicts were right at one level by a model of the other alone."
    if LATER in estimates:
        figure = best_figure(estimates[LATER])
        return figure, (
            f"Do not rely on this at other conditions: training holds one; {figure:.2f} of the verdicts were right "
            f"there, later in the recordings."
        )
    return 0.0, "Do not rely on this: training holds too little to hold any of it out."


def _other_specimen(assessment: Assessment) -> tuple[float, str] | None:
    estimate = assessment.estimates.get(OTHER_SPECIMEN)
    if estimate is None:
        return None
    figure, kind = best_figure(estimate), assessment.extent.specimen_kind
    right = f"{figure:.2f} of the verdicts were right on {assessment.extent.specimen_word}s held out of training"
    other = {None: "another unit or run", "run": "another run of the same machine"}.get(kind, f"another {kind}")
    untested = "; another unit was not tested" if kind == "run" else ""
    word = "Do not rely on this" if figure < LEAST else "Good" if figure >= GOOD else "Use with care"
    return figure, f"{word} for {other}: {right}{untested}."


def _good_ranges(assessment: Assessment, conditions: Sequence[Condition]) -> str:
    """Return where levels are predicted well from their neighbours, for each condition with enough of them."""
    found = []
    for index, condition in enumerate(conditions):
        span = good_range([one for one in assessment.results if _is_level_of(one, index)])
        if span is not None:
            found.append(f"{quantity_name(condition)} {range_name(condition, *span)}")
    return ", ".join(found)


def good_range(levels: Sequence[HeldOutResult]) -> tuple[float, float] | None:
    """Return the range of the longest run of inner levels that are predicted well from their neighbours.

    It includes an outermost level beside it, which cannot be tested in this way.
    """
    ordered = sorted(levels, key=lambda one: one.spans[0].low)
    last = len(ordered) - 1
    inner = range(1, last)
    runs = [list(run) for good, run in groupby(inner, lambda place: best_figure(ordered[place]) >= GOOD) if good]
    if not runs:
        return None
    longest = max(runs, key=len)
    first, final = longest[0] - (longest[0] == 1), longest[-1] + (longest[-1] == last - 1)
    return ordered[first].spans[0].low, ordered[final].spans[0].high


def _is_level_of(one: HeldOutResult, condition: int) -> bool:
    return one.kind == LEVEL and not one.one_of_two and one.spans[0].condition == condition


def _what_to_record(assessment: Assessment, conditions: Sequence[Condition]) -> str | None:
    extent = assessment.extent
    levels = list(zip(conditions, extent.levels, strict=False))
    few = [quantity_name(condition) for condition, count in levels if count == 2]
    if levels and all(count == 1 for _, count in levels):
        return f"One level of {quantity_name(conditions[0])} is too few: record at least two more."
    if few:
        return f"Two levels of {' and of '.join(few)} are few{_by_the_other(assessment)}: record a third."
    if extent.repeats == 1:
        return "One recording per class and condition: record each on another day."
    if extent.specimens == 2:
        return f"Two {extent.specimen_word}s are few: each was judged by the other alone; record a third."
    return None


def _by_the_other(assessment: Assessment) -> str:
    """Return what one level says about the other, unless another sentence says it."""
    expected, found = assessment.new_condition, assessment.estimates.get(ONE_LEVEL)
    if found is None or expected == found:
        return ""
    return f" ({best_figure(found):.2f} of the verdicts were right at one by a model of the other)"
