"""Differences between two states of a watch."""

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
    """Elements that differ; all of them if the tensor is in one state only or has another shape."""
    relative: float | None
    """Norm of the difference relative to the norm before; null if that was 0 or the shape differs."""
    largest: float | None
    """Largest absolute difference of an element; null if the shape differs."""


def differences(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> tuple[Difference, ...]:
    """Return the tensors that differ: first those without a relative difference, then the largest first."""
    found = [_difference(name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())]
    changed = [one for one in found if one is not None]
    return tuple(sorted(changed, key=lambda one: (one.relative is not None, -(one.relative or 0.0))))


def _difference(name: str, old: Tensor | None, new: Tensor | None) -> Difference | None:
    if old is None or new is None or old.shape != new.shape:
        present = new if new is not None else old
        shape = () if present is None else tuple(present.shape)
        return Difference(name, shape, 1 if present is None else present.numel(), None, None)
    was, now = old.double(), new.double()
    # In their own type: large integers may be equal as floats.
    same = (old == new) | (was.isnan() & now.isnan())
    if bool(same.all()):
        return None
    # Equal elements count as 0: the difference of two infinities is NaN and would spoil the norm.
    moved = torch.where(same, 0.0, now - was)
    length = float(was.norm())
    relative = float(moved.norm()) / length if length > 0 else None
    return Difference(name, tuple(new.shape), int((~same).sum()), relative, float(moved.abs().max()))
