"""Check that a model knows the operating conditions that a block states."""

from __future__ import annotations

from collections.abc import Sequence

from cgsa.data.scenario import Condition
from cgsa.errors import DataError
from cgsa.live.intake.block import Block


def check_known_conditions(block: Block, conditions: Sequence[Condition]) -> None:
    """Refuse a block with a condition of another name: its sender would believe that it is used."""
    known = {condition.name for condition in conditions}
    unknown = [name for name in block.conditions if name not in known]
    if unknown:
        expected = ", ".join(f"{condition.name} ({condition.unit})" for condition in conditions)
        raise DataError(
            f"block of {block.machine}, sequence {block.sequence}: unknown condition {unknown[0]!r}; "
            f"the model knows {expected}"
        )
