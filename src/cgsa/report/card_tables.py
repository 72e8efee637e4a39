"""The tables of a model's card as text cells, for terminals and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cgsa.diagnosis.advice import advice, healthy_only_advice
from cgsa.nn.assessment import (
    BEYOND,
    LATER,
    ONE_LEVEL,
    OTHER_COMBINATION,
    OTHER_SPECIMEN,
    WITHIN,
    Assessment,
    Counts,
    HeldOutResult,
    JoinedResult,
    KnownSpeed,
    add_counts,
    class_accuracy,
    median_delay,
)
from cgsa.nn.bundle import Manifest
from cgsa.nn.change import ChangeAssessment

SCOPE_NAMES = {
    WITHIN: "another level, between trained ones",
    OTHER_COMBINATION: "another combination of trained levels",
    OTHER_SPECIMEN: "another {specimen}",
    BEYOND: "a level beyond the trained ones",
    ONE_LEVEL: "one level, by a model of the other alone",
    LATER: "later in the same recordings",
}
"""What estimates are about, in words."""


@dataclass(frozen=True)
class CardTable:
    """A table of text cells."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def scope_name(scope: str, assessment: Assessment) -> str:
    """Return what an estimate is about, in words."""
    return SCOPE_NAMES[scope].format(specimen=assessment.extent.specimen_word)


def estimate_table(assessment: Assessment) -> CardTable:
    """Return the expected accuracies, the one to lead with first."""
    leading = assessment.leading
    found = sorted(assessment.estimates.values(), key=lambda one: leading is not None and one.scope != leading.scope)
    rows = [
        (scope_name(one.scope, assessment), _figure(one.verdict_accuracy), _figure(one.accuracy), str(one.parts))
        for one in found
    ]
    return CardTable("Expected accuracy", ("where", "verdicts", "windows", "parts"), tuple(rows))


def part_table(assessment: Assessment) -> CardTable:
    """Return one row per part that was held out."""
    header = ("held out", "verdicts", "windows", "alarms", "false alarms")
    return CardTable("Accuracy where it was held out", header, tuple(map(part_row, assessment.results)))


def class_table(assessment: Assessment, classes: Sequence[str]) -> CardTable | None:
    """Return one row per class, over the parts that the leading estimate is about; None without an estimate."""
    parts = leading_parts(assessment)
    if not parts:
        return None
    windows = add_counts(one.confusion for one in parts)
    joined = [one.joined.verdicts for one in parts if one.joined is not None]
    verdicts = class_accuracy(add_counts(joined)) if joined else [None] * len(classes)
    rows = [
        (name, _figure(verdict), _figure(single), _mistaken(windows, label, classes))
        for label, (name, verdict, single) in enumerate(zip(classes, verdicts, class_accuracy(windows), strict=True))
    ]
    return CardTable(
        f"By class: {_leading_scope(assessment)}", ("class", "verdicts", "windows", "mistaken for"), tuple(rows)
    )


def confusion_table(assessment: Assessment, classes: Sequence[str]) -> CardTable | None:
    """Return the shares of the diagnosed classes for each class, over the same parts; columns are numbered."""
    parts = leading_parts(assessment)
    if not parts:
        return None
    counts = add_counts(one.confusion for one in parts)
    rows = [
        (f"{number} {name}", *(f"{count / max(1, sum(row)):.2f}" if count else "" for count in row))
        for number, (name, row) in enumerate(zip(classes, counts, strict=True), start=1)
    ]
    numbers = [str(number) for number in range(1, len(classes) + 1)]
    return CardTable("Confusion: shares of the windows of each class", ("class", *numbers), tuple(rows))


def member_table(assessment: Assessment) -> CardTable:
    """Return the members of the ensemble, the heaviest first."""
    ordered = sorted(assessment.members, key=lambda one: -one.weight)
    rows = [(one.name, f"{one.weight:.3f}", _figure(one.accuracy)) for one in ordered]
    return CardTable("Candidates", ("member", "weight", "own accuracy where held out"), tuple(rows))


def small_print(assessment: Assessment, manifest: Manifest) -> list[str]:
    """Return how to read the tables, and what says little."""
    reading = (
        "Healthy and faulty windows count half each. Parts were diagnosed by models trained without them, after a "
        "healthy start. Verdicts join windows over time. Alarms: how many faults raised one before their recording "
        "ended, and the median of the seconds from the onset."
    )
    found = [reading, f"In training, {assessment.training_accuracy:.3f} of the windows are right, which says little."]
    if assessment.seconds_between > 1.5 * manifest.window.step / manifest.sample_rate:
        found.append(
            f"Judged were windows {assessment.seconds_between:.2g} s apart; a stream has one every "
            f"{manifest.window.step / manifest.sample_rate:.2g} s, so its alarms may come earlier."
        )
    return [*found, *_known_speed(assessment.known_speed)]


def _known_speed(found: KnownSpeed | None) -> list[str]:
    """Return what a known speed changes."""
    if found is None:
        return []
    if not found.used:
        return ["A known speed is not used: at the held-out parts, it takes likelihood away."]
    known, without = _figure(found.accuracy), _figure(found.accuracy_without)
    right = f"{known} of the windows are right then at the held-out parts, {without} without it"
    return [f"Where the speed is known, it is used: {right}, both without a healthy start."]


def sentences(manifest: Manifest) -> list[str]:
    """Return what a model is good for, in words; empty if its bundle does not say."""
    if manifest.healthy_only is not None:
        return healthy_only_advice(manifest.healthy_only)
    return [] if manifest.assessment is None else advice(manifest.assessment, manifest.conditions)


def false_share_table(assessment: ChangeAssessment) -> CardTable:
    """Return the share of healthy windows that were taken for changed, for every part that was held out."""
    rows = tuple(
        (one.name + ("" if one.covered else " (whole level)"), f"{one.windows}", _figure(one.false_share))
        for one in assessment.results
    )
    return CardTable("Healthy windows taken for changed, by held-out part", ("held out", "windows", "share"), rows)


def leading_parts(assessment: Assessment) -> list[HeldOutResult]:
    """Return the parts that the leading estimate is about."""
    leading = assessment.leading
    return [] if leading is None else assessment.within(leading.scope)


def _leading_scope(assessment: Assessment) -> str:
    leading = assessment.leading
    return "" if leading is None else scope_name(leading.scope, assessment)


def part_row(one: HeldOutResult) -> tuple[str, ...]:
    """Return the cells of a part: name, accuracies, alarms and false alarms."""
    remark = " (outermost)" if one.outermost and not one.one_of_two else " (by the other)" if one.one_of_two else ""
    joined = one.joined
    if joined is None:
        return (one.name + remark, "", _figure(one.accuracy), "", "")
    return (
        one.name + remark,
        _figure(joined.accuracy),
        _figure(one.accuracy),
        _alarms(joined),
        f"{joined.false_alarms} in {joined.healthy_seconds:.0f} s",
    )


def _alarms(joined: JoinedResult) -> str:
    delay, raised = median_delay([joined]), sum(value is not None for value in joined.delays)
    if delay is None:
        return f"none in {joined.fault_seconds:.2g} s"
    return f"{raised} of {len(joined.delays)}, {delay:.2g} s"


def _mistaken(counts: Counts, label: int, classes: Sequence[str]) -> str:
    others = [
        (count, name) for place, (count, name) in enumerate(zip(counts[label], classes, strict=True)) if place != label
    ]
    most, name = max(others)
    return f"{name} ({most / sum(counts[label]):.2f})" if most else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
