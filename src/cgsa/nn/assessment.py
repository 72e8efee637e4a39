"""The accuracy of a model where it was not trained, as its bundle stores it.

Parts of the training were held out in turn, and models that were trained without
them diagnosed them. Accuracies count healthy and faulty windows half each, as in
a stream whose machine fails in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from cgsa.config import stored_if_given

LEVEL, COMBINATION, SPECIMEN, LATEST = "level", "combination", "specimen", "latest"
"""Kinds of parts: a level of a condition, a combination of levels, a specimen, the last quarter of every recording."""
WITHIN, OTHER_COMBINATION, OTHER_SPECIMEN = "within", "other combination", "other specimen"
BEYOND, ONE_LEVEL, LATER = "beyond", "one level", "later"
"""What an estimate is about: a level between others, another combination of trained levels, another specimen, a level
beyond the others, one of two levels by a model of the other alone, later time."""
SCOPES = (WITHIN, OTHER_COMBINATION, OTHER_SPECIMEN, BEYOND, ONE_LEVEL, LATER)

Counts = tuple[tuple[int, ...], ...]
"""Number of windows for every class and every state that was diagnosed."""


@dataclass(frozen=True)
class LevelSpan:
    """Lowest and highest value of a condition in a part."""

    condition: int
    """Index of the condition."""
    low: float
    high: float


@dataclass(frozen=True)
class JoinedResult:
    """Decisions joined over time along streams of held-out windows: the healthy machine first, then a fault."""

    verdicts: Counts
    """By class and decided state; a state beyond the classes is unknown."""
    delays: tuple[float | None, ...]
    """Seconds from the onset to the alarm in every stream; None where the recording ends before an alarm."""
    false_alarms: int
    healthy_seconds: float
    fault_seconds: float
    """Mean length of the faulty part of a stream."""

    @property
    def accuracy(self) -> float | None:
        """Accuracy of the verdicts."""
        return halves(self.verdicts)


@dataclass(frozen=True)
class HeldOutResult:
    """The diagnosis of one part of the training by a model that was trained without it."""

    kind: str
    """See :data:`LEVEL`."""
    name: str
    """Such as ``speed 1200 rpm``."""
    confusion: Counts
    """Single windows by class and diagnosed class."""
    spans: tuple[LevelSpan, ...] = ()
    """Conditions that the part fixes."""
    outermost: bool = False
    """Whether it is the lowest or highest level, which is predicted from one side only."""
    one_of_two: bool = False
    """Whether it was predicted from a single other level or specimen."""
    joined: JoinedResult | None = None
    """None if no stream could be made of it: a fault without a healthy recording, or the reverse."""

    @property
    def accuracy(self) -> float | None:
        """Accuracy of single windows; None if it has healthy or faulty windows only."""
        return halves(self.confusion)

    @property
    def verdict_accuracy(self) -> float | None:
        """Accuracy of joined verdicts; None if unknown."""
        return None if self.joined is None else self.joined.accuracy

    @property
    def scope(self) -> str:
        """What this part says something about."""
        if self.kind == LATEST:
            return LATER
        if self.kind == SPECIMEN:
            return OTHER_SPECIMEN
        if self.one_of_two:
            return ONE_LEVEL
        if self.kind == COMBINATION:
            return OTHER_COMBINATION
        return BEYOND if self.outermost else WITHIN


@dataclass(frozen=True)
class MemberResult:
    """A member of the ensemble."""

    name: str
    weight: float
    """Its share of all weights."""
    accuracy: float | None
    """Its own accuracy at the held-out parts."""


@dataclass(frozen=True)
class TrainingExtent:
    """How much a training held."""

    levels: tuple[int, ...]
    """Number of levels of each condition."""
    specimens: int
    repeats: int
    """Least number of recordings of a class at a combination of levels where it was recorded."""
    specimen_kind: str | None = field(default=None, metadata=stored_if_given())
    """``unit`` if specimens are assemblies, ``run`` if they are repeated measurements; None if nobody said."""

    @property
    def specimen_word(self) -> str:
        """What to call a specimen."""
        return self.specimen_kind or SPECIMEN


@dataclass(frozen=True)
class Estimate:
    """Expected accuracy in some circumstances: the mean over the parts that represent them."""

    scope: str
    """See :data:`WITHIN`."""
    parts: int
    accuracy: float
    verdict_accuracy: float | None


@dataclass(frozen=True)
class KnownSpeed:
    """Single windows of the held-out parts, diagnosed with their speed and without it, both without a reference."""

    accuracy: float | None
    """With the speed; None if no part has both healthy and faulty windows."""
    accuracy_without: float | None
    used: bool
    """Whether members in orders have weights: not if they take likelihood away at the held-out parts."""


@dataclass(frozen=True)
class Assessment:
    """The accuracy of a model where it was not trained."""

    results: tuple[HeldOutResult, ...]
    members: tuple[MemberResult, ...]
    extent: TrainingExtent
    training_accuracy: float
    """Of the windows it was trained on: it says little about others."""
    seconds_between: float
    """Seconds from one judged window to the next; more than in a stream if recordings are long."""
    known_speed: KnownSpeed | None = field(default=None, metadata=stored_if_given())
    """What a known speed changes; None if no condition is a speed, or if nothing was held out."""

    def with_specimens(self, kind: str) -> Assessment:
        """Return the assessment with its specimens called by what they are, ``unit`` or ``run``."""
        named = [
            replace(one, name=one.name.replace(SPECIMEN, kind)) if one.kind == SPECIMEN else one for one in self.results
        ]
        return replace(self, results=tuple(named), extent=replace(self.extent, specimen_kind=kind))

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Estimates by scope, for those scopes of which a part was held out."""
        found = {scope: _mean(scope, self.within(scope)) for scope in SCOPES}
        return {scope: one for scope, one in found.items() if one is not None}

    @property
    def new_condition(self) -> Estimate | None:
        """The estimate for a machine of the training at another condition.

        It is the worse of a level between others and another combination of levels. Where training has no such part,
        it is what few levels say about another, which is less than all together would.
        """
        estimates = self.estimates
        known = [estimates[one] for one in (WITHIN, OTHER_COMBINATION) if one in estimates]
        if known:
            return min(known, key=lambda one: one.accuracy)
        return estimates.get(BEYOND) or estimates.get(ONE_LEVEL)

    @property
    def leading(self) -> Estimate | None:
        """The estimate to lead with: the worse of another condition and another specimen, or else later time."""
        estimates = self.estimates
        known = [one for one in (self.new_condition, estimates.get(OTHER_SPECIMEN)) if one is not None]
        return min(known, key=lambda one: one.accuracy) if known else estimates.get(LATER)

    def new_level(self, condition: int, *, beyond: bool = False) -> Estimate | None:
        """Return the estimate for another level of a condition, between its levels or beyond them.

        It comes from the inner or from the outermost levels, or, without any, from all.
        """
        levels = [one for one in self.results if one.kind == LEVEL and one.spans[0].condition == condition]
        scope = BEYOND if beyond else WITHIN
        return _mean(scope, [one for one in levels if one.scope == scope]) or _mean(ONE_LEVEL, levels)

    def within(self, *scopes: str) -> list[HeldOutResult]:
        """Return the results of some scopes."""
        return [one for one in self.results if one.scope in scopes]


def _mean(scope: str, parts: Sequence[HeldOutResult]) -> Estimate | None:
    single = [one.accuracy for one in parts if one.accuracy is not None]
    joined = [one.verdict_accuracy for one in parts if one.verdict_accuracy is not None]
    return Estimate(scope, len(single), fmean(single), fmean(joined) if joined else None) if single else None


def halves(counts: Counts) -> float | None:
    """Return the accuracy with healthy and faulty windows counting half each, and every fault the same.

    None if either is missing.

    >>> halves(((9, 1), (2, 2)))
    0.7
    """
    healthy, *faults = class_accuracy(counts)
    known = [one for one in faults if one is not None]
    return (healthy + fmean(known)) / 2 if healthy is not None and known else None


def class_accuracy(counts: Counts) -> list[float | None]:
    """Return the accuracy of every class; None for one without windows."""
    return [row[label] / sum(row) if sum(row) else None for label, row in enumerate(counts)]


def add_counts(several: Iterable[Counts]) -> Counts:
    """Return the sum of tables of the same shape."""
    return tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*several, strict=True))


def median_delay(joined: Sequence[JoinedResult]) -> float | None:
    """Return the median delay over all streams that raised an alarm; None if none did."""
    known = [delay for one in joined for delay in one.delays if delay is not None]
    return median(known) if known else None
