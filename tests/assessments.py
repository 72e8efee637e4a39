"""Assessments for tests, written down rather than trained."""

from __future__ import annotations

from collections.abc import Sequence

from cgsa.nn.assessment import (
    Assessment,
    Counts,
    HeldOutResult,
    JoinedResult,
    LevelSpan,
    MemberResult,
    TrainingExtent,
)


def counts(right: int, *, states: int = 2) -> Counts:
    """100 healthy windows that are all right, and 100 faulty ones of which some are."""
    unknown = (0,) * (states - 2)
    return ((100, 0, *unknown), (100 - right, right, *unknown))


def result(
    kind: str,
    name: str,
    right: int,
    *,
    verdicts: int | None = None,
    level: float | None = None,
    outermost: bool = False,
    one_of_two: bool = False,
) -> HeldOutResult:
    """A part of which some of 100 faulty windows, and of 100 verdicts about the fault, are right."""
    joined = None
    if verdicts is not None:
        joined = JoinedResult(counts(verdicts, states=3), (0.5, None, 1.5), 1, 30.0, 2.0)
    spans = () if level is None else (LevelSpan(0, level, level),)
    return HeldOutResult(kind, name, counts(right), spans, outermost, one_of_two, joined)


def levels(*rights: int) -> list[HeldOutResult]:
    """Levels of 600, 1200, ... rpm, each with the verdicts that are right."""
    last = len(rights) - 1
    return [
        result(
            "level",
            f"speed {600 * (place + 1)} rpm",
            right,
            verdicts=right,
            level=600.0 * (place + 1),
            outermost=place in (0, last),
            one_of_two=last == 1,
        )
        for place, right in enumerate(rights)
    ]


def assessment(
    results: Sequence[HeldOutResult], *, speeds: int = 5, specimens: int = 1, repeats: int = 2
) -> Assessment:
    members = (MemberResult("spectrum 512, lda", 0.25, 0.9), MemberResult("envelope 64, lda", 0.75, None))
    return Assessment(tuple(results), members, TrainingExtent((speeds,), specimens, repeats), 0.987, 0.05)
