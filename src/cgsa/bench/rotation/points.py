"""Operating points: the combinations of levels at which a machine was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cgsa.data.levels import level_name
from cgsa.data.scenario import Condition, SegmentSelection


@dataclass(frozen=True)
class OperatingPoint:
    """A combination of levels, and the recordings made there."""

    levels: tuple[float, ...]
    """One level per condition of the set."""
    runs: tuple[str, ...]
    """All runs at these levels, such as one per sensor position."""
    specimens: tuple[int, ...]
    """Specimens that were recorded here in every class."""
    seconds: float | None = None
    """How long a run holds these levels, if it also passes through others; None means all of it."""


def point_name(levels: Mapping[str, float], conditions: Sequence[Condition]) -> str:
    """Return a name such as ``speed 1200 rpm, shaft load 11 lb`` for the levels of some conditions."""
    return ", ".join(level_name(one, levels[one.name]) for one in conditions if one.name in levels)


def point_distance(one: OperatingPoint, other: OperatingPoint, conditions: Sequence[Condition]) -> float:
    """Return the distance of two points, each level relative to the range of its condition."""
    return math.hypot(
        *(
            (a - b) / (condition.maximum - condition.minimum)
            for condition, a, b in zip(conditions, one.levels, other.levels, strict=True)
        )
    )


def common_levels(points: Sequence[OperatingPoint], conditions: Sequence[Condition]) -> dict[str, float]:
    """Return the levels that all points share, by condition."""
    by_condition = zip(conditions, *(point.levels for point in points), strict=True)
    return {condition.name: levels[0] for condition, *levels in by_condition if len(set(levels)) == 1}


def training_selection(
    points: Iterable[OperatingPoint], conditions: Sequence[Condition], part: tuple[float, float]
) -> tuple[SegmentSelection, ...]:
    """Return one offline segment per point, with the given part of each of its runs."""
    return tuple(
        SegmentSelection(
            point_name(common_levels([point], conditions), conditions),
            point.runs[0],
            also=point.runs[1:],
            level=common_levels([point], conditions),
            seconds=point.seconds,
            part=part,
        )
        for point in points
    )
