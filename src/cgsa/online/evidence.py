"""Evidence of which there is one number a window for every condition, such as the residual response.

One condition needs no name: ``response``. Several have theirs behind it:
``response_speed``, ``response_load``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from torch import Tensor

T = TypeVar("T")

AGREES = "agrees"
"""Evidence whether the frozen source model says the same of a window; methods that know it tell it."""


def names_by_condition(what: str, conditions: Sequence[str]) -> list[str]:
    """Return the names of such evidence.

    >>> names_by_condition("response", ["speed", "load"])
    ['response_speed', 'response_load']
    """
    return [what] if len(conditions) == 1 else [f"{what}_{condition}" for condition in conditions]


def name_by_condition(what: str, conditions: Sequence[str], values: Tensor) -> dict[str, Tensor]:
    """Return the columns of ``values``, (windows, conditions), as evidence."""
    return dict(zip(names_by_condition(what, conditions), values.unbind(dim=1), strict=True))


def find_by_condition(what: str, evidence: Mapping[str, T]) -> dict[str, T]:
    """Return what stands in the evidence, by the name of the condition; that of a single one is empty.

    >>> find_by_condition("response", {"response_speed": 1, "response_load": 2, "deviation": 3})
    {'speed': 1, 'load': 2}
    """
    if what in evidence:
        return {"": evidence[what]}
    begin = f"{what}_"
    return {name.removeprefix(begin): value for name, value in evidence.items() if name.startswith(begin)}
