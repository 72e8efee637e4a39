"""States of several parts in one flat table of tensors: ``part.name -> tensor``."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def put_under(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with ``part.`` before each name."""
    return {f"{part}.{name}": tensor for name, tensor in tensors.items()}


def take_under(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one part, under their own names again."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
