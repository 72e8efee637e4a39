"""What differs between two states of a watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Difference:
    """How a tensor differs between two states."""

    name: str
    shape: tuple[int, ...]
    changed: int
    """Numbers that differ; all of them where it is in one state alone, or of another shape."""
    relative: float | None
    """Length of the difference by the length of what it was before; none where that was 0, or its shape another."""
    largest: float | None
    """The largest difference of one number; none where its shape is another."""


def differences(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> tuple[Difference, ...]:
    """Return the tensors that differ: first those whose difference has no measure, then those that differ most."""
    found = [_difference(name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())]
    changed = [one for one in found if one is not None]
    return tuple(sorted(changed, key=lambda one: (one.relative is not None, -(one.relative or 0.0))))


def _difference(name: str, old: Tensor | None, new: Tensor | None) -> Difference | None:
    if old is None or new is None or old.shape != new.shape:
        there = new if new is not None else old
        shape = () if there is None else tuple(there.shape)
        return Difference(name, shape, 1 if there is None else there.numel(), None, None)
    was, now = old.double(), new.double()
    # As they are: large whole numbers are not told apart as floats.
    same = (old == new) | (was.isnan() & now.isnan())
    if bool(same.all()):
        return None
    # What is the same is left out, lest infinity less infinity make nothing of all the others.
    moved = torch.where(same, 0.0, now - was)
    length = float(was.norm())
    relative = float(moved.norm()) / length if length > 0 else None
    return Difference(name, tuple(new.shape), int((~same).sum()), relative, float(moved.abs().max()))
