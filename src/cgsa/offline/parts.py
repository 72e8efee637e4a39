"""What is held out of training together: a level of a condition, a combination of levels, a specimen, later time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cgsa.nn.assessment import COMBINATION, LEVEL, SPECIMEN
from cgsa.offline.folds import condition_levels
from cgsa.offline.inspection import evenly_spaced

MAX_PARTS = 12
"""Most combinations of levels, and most specimens, that are held out. Each costs a training, and one more of many says
little that the others do not."""


@dataclass(frozen=True)
class Part:
    """Part of the training that is held out together."""

    kind: str
    """See :data:`cgsa.nn.assessment.LEVEL`."""
    levels: tuple[tuple[int, float, float], ...] = ()
    """Index of each condition that this part fixes, with the lowest and the highest value there."""
    specimen: int | None = None
    outermost: bool = False
    """Whether this is the lowest or the highest level of a condition: it is predicted from one side only."""
    one_of_two: bool = False
    """Whether one other level or specimen is left: it shows the accuracy with a single one, not with two."""


@dataclass(frozen=True, eq=False)
class HeldOutPart:
    """A part with its windows."""

    part: Part
    mask: Tensor = field(repr=False)


def held_out_parts(conditions: Tensor, machines: Tensor) -> Iterator[HeldOutPart]:
    """Yield what is held out in turn: levels of conditions, their combinations, and specimens.

    Of many combinations and specimens, some are held out, evenly spread over all.

    Parameters
    ----------
    conditions
        Conditions of every window, (windows, conditions).
    machines
        Specimen of every window.
    """
    parts = [*_level_parts(conditions), *_combination_parts(conditions)]
    while parts:
        # Conditions that change together are one: held out once, under both names.
        same = [other for other in parts if torch.equal(other.mask, parts[0].mask)]
        levels = dict.fromkeys(level for other in same for level in other.part.levels)
        yield replace(parts[0], part=replace(parts[0].part, levels=tuple(levels)))
        parts = [other for other in parts if not torch.equal(other.mask, parts[0].mask)]
    specimens = sorted(set(machines.tolist()))
    for specimen in _some(specimens) if len(specimens) > 1 else ():
        part = Part(SPECIMEN, specimen=specimen, one_of_two=len(specimens) == 2)
        yield HeldOutPart(part, machines == specimen)


def _level_parts(conditions: Tensor) -> Iterator[HeldOutPart]:
    for index, levels in _varied(conditions).items():
        count = int(levels.max()) + 1
        for value in range(count):
            mask = levels == value
            part = Part(LEVEL, (_extent(conditions, index, mask),), None, value in (0, count - 1), count == 2)
            yield HeldOutPart(part, mask)


def _combination_parts(conditions: Tensor) -> Iterator[HeldOutPart]:
    varied = _varied(conditions)
    if len(varied) > 1:
        combinations, place = torch.unique(torch.stack([*varied.values()], dim=1), dim=0, return_inverse=True)
        for number in _some(range(len(combinations))):
            mask = place == number
            extents = tuple(_extent(conditions, index, mask) for index in varied)
            yield HeldOutPart(Part(COMBINATION, extents, one_of_two=len(combinations) == 2), mask)


def _some(numbers: Sequence[int]) -> list[int]:
    """Return at most :data:`MAX_PARTS` of some numbers, evenly spaced."""
    return [numbers[place] for place in evenly_spaced(len(numbers), MAX_PARTS, torch.device("cpu")).tolist()]


def _varied(conditions: Tensor) -> dict[int, Tensor]:
    """Return the level of every window, for the conditions that have more than one."""
    levels = {index: condition_levels(column.contiguous()) for index, column in enumerate(conditions.unbind(dim=1))}
    return {index: level for index, level in levels.items() if int(level.max()) > 0}


def _extent(conditions: Tensor, index: int, mask: Tensor) -> tuple[int, float, float]:
    return index, float(conditions[mask, index].min()), float(conditions[mask, index].max())
