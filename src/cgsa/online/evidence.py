"""Evidence with one number per window and condition, such as the residual response.

With a single condition it is named plainly: ``response``. With several, the
name of the condition is appended: ``response_speed``, ``response_load``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from torch import Tensor

T = TypeVar("T")

AGREES_WITH_SOURCE = "agrees"
"""Name of the evidence whether the frozen source model predicts the same class; some methods give it themselves."""


def evidence_names(what: str, conditions: Sequence[str]) -> list[str]:
    """Return the evidence names of a quantity, one per condition.

    >>> evidence_names("response", ["speed", "load"])
    ['response_speed', 'response_load']
    """
    return [what] if len(conditions) == 1 else [f"{what}_{condition}" for condition in conditions]


def split_by_condition(what: str, conditions: Sequence[str], values: Tensor) -> dict[str, Tensor]:
    """Return the columns of ``values``, (windows, conditions), as evidence."""
    return dict(zip(evidence_names(what, conditions), values.unbind(dim=1), strict=True))


def evidence_by_condition(what: str, evidence: Mapping[str, T]) -> dict[str, T]:
    """Return the values of a quantity by the name of the condition, which is empty if there is only one.

    >>> evidence_by_condition("response", {"response_speed": 1, "response_load": 2, "deviation": 3})
    {'speed': 1, 'load': 2}
    """
    if what in evidence:
        return {"": evidence[what]}
    prefix = f"{what}_"
    return {name.removeprefix(prefix): value for name, value in evidence.items() if name.startswith(prefix)}
