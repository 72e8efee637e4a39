"""The names under which alarms list levels above their limits."""

from __future__ import annotations

from cgsa.events import LevelReport
from cgsa.live.levels.texts import describe_level

_PREFIX = "level "
_WARNING = f"{_PREFIX}warning: "


def level_faults(report: LevelReport | None) -> dict[str, str]:
    """Return the fault of each level above a limit, and a text with its value and limit.

    >>> from cgsa.events import LimitedLevel
    >>> level_faults(LevelReport((), limits=(LimitedLevel("z", "velocity", 8.0, "mm/s", 4.5, 7.1, "alarm"),)))
    {'level alarm: z velocity': 'z velocity 8 mm/s, alarm limit 7.1 mm/s'}
    """
    limits = () if report is None else report.limits
    return {
        f"{_PREFIX}{one.state}: {one.channel} {one.quantity}": describe_level(one)
        for one in limits
        if one.state != "normal"
    }


def is_level_fault(fault: str) -> bool:
    """Return whether a fault is a level above a limit."""
    return fault.startswith((_WARNING, f"{_PREFIX}alarm: "))


def is_level_warning(fault: str) -> bool:
    """Return whether a fault is a level above its warning limit."""
    return fault.startswith(_WARNING)
