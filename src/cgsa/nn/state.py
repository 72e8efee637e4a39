"""States of several parts in one flat mapping of tensors: ``part.name -> tensor``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from cgsa.errors import BundleError


def add_prefix(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with ``part.`` prefixed to each name."""
    return {f"{part}.{name}": tensor for name, tensor in tensors.items()}


def select_prefix(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one part, without the prefix."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def check_state(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], what: str, also: Iterable[str] = ()
) -> None:
    """Refuse a state for ``what`` that lacks a tensor or has a wrong shape; names in ``also`` may have any shape."""
    problems = [f"no {name}" for name in (*expected, *also) if name not in state]
    problems += [
        f"{name} of shape {tuple(state[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    if problems:
        raise BundleError(f"state does not fit this {what}: {'; '.join(problems)}")
