"""The folds of a rotation: what is left out of training, and the streams that then contain it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cgsa.bench.rotation.points import (
    OperatingPoint,
    common_levels,
    point_distance,
    point_name,
    training_selection,
)
from cgsa.bench.rotation.sets import TRAINING_PART, WATCHED_PART, RotationSet
from cgsa.data.levels import level_name
from cgsa.data.scenario import Scenario, Stage

MIN_TRAINED_POINTS = 2
"""A calibration holds one condition out of the training, so that another must remain."""
UNSEEN, TRAINED = "unseen", "trained"
VARIANTS = (UNSEEN, TRAINED)
"""Where a stream starts: at the condition of the fold, or at a trained condition, where the machine is commissioned."""


@dataclass(frozen=True)
class RotationStream:
    """One stream of a fold, for any fault."""

    condition: str
    """Where its stages C1 and C2 are."""
    variant: str
    specimen: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class RotationFold:
    """One training with something left out, and the streams of the model."""

    kind: str
    """What kind of thing is left out, such as ``condition`` or ``unit``."""
    left_out: str
    """Such as ``1200 rpm, 11 lb`` or ``unit 2``."""
    scenario: Scenario
    """Has the training segments, and the stages of the first stream."""
    train_on: tuple[int, ...]
    """Specimens of the training."""
    streams: tuple[RotationStream, ...]

    @property
    def key(self) -> str:
        """Unique name within the set, usable as a file name."""
        letters = f"{self.kind}-{self.left_out}"
        return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in letters)

    @property
    def beyond_training(self) -> bool:
        """Whether the streams have a level below or above all those of the training."""
        trained = [one.level for one in self.scenario.offline if isinstance(one.level, Mapping)]
        asked = [stage.level for stream in self.streams for stage in stream.stages if isinstance(stage.level, Mapping)]
        found = ((name, level) for levels in asked for name, level in levels.items())
        known = {name: [levels[name] for levels in trained if name in levels] for levels in asked for name in levels}
        return any(known[name] and not min(known[name]) <= level <= max(known[name]) for name, level in found)

    def scenario_of(self, stream: RotationStream) -> Scenario:
        """Return the scenario of a stream."""
        return replace(self.scenario, online=stream.stages)


def rotation_folds(rotated: RotationSet, variants: Sequence[str] = VARIANTS) -> list[RotationFold]:
    """Return every fold of a set: conditions, levels of one quantity, units or runs, units together with conditions.

    A fold that leaves fewer than two operating points for training is omitted, and so is a level that only one point
    has, since it equals the fold of that point.
    """
    folds = [*_condition_folds(rotated), *_level_folds(rotated), *_specimen_folds(rotated)]
    chosen = (
        replace(fold, streams=tuple(stream for stream in fold.streams if stream.variant in variants)) for fold in folds
    )
    return [fold for fold in chosen if fold.streams]


def _condition_folds(rotated: RotationSet) -> Iterator[RotationFold]:
    for point in rotated.points:
        yield from _fold(rotated, "condition", rotated.point_name(point), [point])


def _level_folds(rotated: RotationSet) -> Iterator[RotationFold]:
    conditions = rotated.scenario.conditions
    if len(conditions) < 2:
        return
    for place, condition in enumerate(conditions):
        for level in sorted({point.levels[place] for point in rotated.points}):
            points = [point for point in rotated.points if point.levels[place] == level]
            if len(points) > 1:
                yield from _fold(rotated, "level", level_name(condition, level), points)


def _specimen_folds(rotated: RotationSet) -> Iterator[RotationFold]:
    specimens, kind = rotated.specimens, rotated.scenario.specimens
    if len(specimens) < 2:
        return
    for specimen in specimens:
        others = tuple(other for other in specimens if other != specimen)
        name = f"{kind} {specimen}"
        streams = [
            stream
            for point in rotated.points
            for stream in _streams(rotated, [point], [other for other in rotated.points if other != point], [specimen])
        ]
        if streams:
            yield RotationFold(
                kind, name, _scenario(rotated, rotated.points), _train_on(rotated.points, others), tuple(streams)
            )
        # Runs repeat one machine, so that leaving them out together with a condition asks nothing new.
        for point in rotated.points if kind != "run" else ():
            yield from _fold(
                rotated,
                f"{kind} and condition",
                f"{name}, {rotated.point_name(point)}",
                [point],
                watched=[specimen],
                trained_specimens=others,
            )


def _fold(
    rotated: RotationSet,
    kind: str,
    name: str,
    points: Sequence[OperatingPoint],
    *,
    watched: Sequence[int] | None = None,
    trained_specimens: Sequence[int] | None = None,
) -> Iterator[RotationFold]:
    """Yield the fold that leaves some points out, unless too few remain; by default it uses all specimens."""
    trained = [point for point in rotated.points if point not in points]
    if len(trained) < MIN_TRAINED_POINTS:
        return
    train_on = _train_on(trained, rotated.specimens if trained_specimens is None else trained_specimens)
    streams = tuple(_streams(rotated, points, trained, rotated.specimens if watched is None else watched))
    if streams and train_on:
        yield RotationFold(kind, name, _scenario(rotated, trained), train_on, streams)


def _train_on(trained: Sequence[OperatingPoint], specimens: Sequence[int]) -> tuple[int, ...]:
    """Return the specimens that were recorded in every class at a trained point.

    Of another one, training might have a fault but not the healthy machine that a reference needs.
    """
    return tuple(one for one in specimens if any(one in point.specimens for point in trained))


def _scenario(rotated: RotationSet, trained: Sequence[OperatingPoint]) -> Scenario:
    conditions = rotated.scenario.conditions
    return replace(rotated.scenario, offline=training_selection(trained, conditions, TRAINING_PART))


def _streams(
    rotated: RotationSet,
    points: Sequence[OperatingPoint],
    trained: Sequence[OperatingPoint],
    specimens: Sequence[int],
) -> Iterator[RotationStream]:
    """Yield the streams of every specimen that was recorded at all the points: C1 healthy and C2 faulty there.

    C3 is the fault at the nearest trained point where this specimen was recorded, and C0, with which the other variant
    starts, the healthy machine at that point.
    """
    conditions = rotated.scenario.conditions
    name = point_name(common_levels(points, conditions), conditions)
    for specimen in specimens:
        if not all(specimen in point.specimens for point in points):
            continue
        healthy = _stage(rotated, "C1", points, fault_from=1.0)
        faulty = _stage(rotated, "C2", points, fault_from=0.0)
        known = [point for point in trained if specimen in point.specimens]
        if not known:
            yield RotationStream(name, UNSEEN, specimen, (healthy, faulty))
            continue
        nearest = min(known, key=lambda one: min(point_distance(one, point, conditions) for point in points))
        last = _stage(rotated, "C3", [nearest], fault_from=0.0, part=WATCHED_PART)
        first = _stage(rotated, "C0", [nearest], fault_from=1.0, part=WATCHED_PART)
        yield RotationStream(name, UNSEEN, specimen, (healthy, faulty, last))
        yield RotationStream(name, TRAINED, specimen, (first, healthy, faulty, last))


def _stage(
    rotated: RotationSet,
    name: str,
    points: Sequence[OperatingPoint],
    *,
    fault_from: float,
    part: tuple[float, float] = (0.0, 1.0),
) -> Stage:
    runs = [run for point in points for run in point.runs]
    return Stage(
        name,
        runs[0],
        also=tuple(runs[1:]),
        level=common_levels(points, rotated.scenario.conditions),
        seconds=points[0].seconds,
        part=part,
        fault_from=fault_from,
    )
