"""How the levels of operating conditions are written, such as ``speed 1200 rpm``."""

from __future__ import annotations

from math import floor, log10

from cgsa.data.scenario import LEVEL_ERROR, Condition

UNITS = {"hz": "Hz", "lb": "lb", "n": "N", "nm": "Nm", "percent": "%", "rpm": "rpm"}
"""Units that the name of a quantity may end with, such as ``speed_rpm``, as people write them."""

SPEED_UNITS = ("rpm", "1/min", "min-1", "rad/s", "1/s", "Hz")
"""Units of conditions in proportion to which impacts and harmonics come: rotational speeds and supply frequencies."""


def is_speed(condition: Condition) -> bool:
    """Return whether a condition is a rotational speed or a supply frequency, by its unit.

    >>> is_speed(Condition("speed", "rpm", 600, 3000, 30.0)), is_speed(Condition("torque", "Nm", 0, 1, 0.1))
    (True, False)
    """
    return condition.unit in SPEED_UNITS


def quantity_name(condition: Condition) -> str:
    """Return the name of the quantity without its unit.

    >>> quantity_name(Condition("shaft_load_lb", "lb", 0, 11, 1.0))
    'shaft load'
    """
    quantity, _, last = condition.name.rpartition("_")
    return (quantity if quantity and last in UNITS else condition.name).replace("_", " ")


def level_name(condition: Condition, level: float) -> str:
    """Return a name such as ``speed 1200 rpm``; it has the quantity, since two of them may have the same unit.

    >>> level_name(Condition("torque_nm", "Nm", 0, 1, 0.1), 0.7)
    'torque 0.7 Nm'
    """
    return f"{quantity_name(condition)} {_with_unit(condition, f'{level:g}')}"


def span_name(condition: Condition, low: float, high: float) -> str:
    """Return a name for measured values: one level if all count as that level, or else their range.

    >>> speed = Condition("speed", "rpm", 600, 3000, 30.0)
    >>> span_name(speed, 1196.2, 1203.1), span_name(speed, 600.0, 1203.1)
    ('speed 1200 rpm', 'speed 600 to 1200 rpm')
    """
    if high - low <= 2 * max(condition.tolerance, LEVEL_ERROR * max(abs(low), abs(high))):
        return level_name(condition, _rounded(condition, (low + high) / 2))
    return f"{quantity_name(condition)} {range_name(condition, low, high)}"


def range_name(condition: Condition, low: float, high: float) -> str:
    """Return a range with its unit, such as ``600 to 1200 rpm``."""
    return _with_unit(condition, f"{_rounded(condition, low):g} to {_rounded(condition, high):g}")


def unit_of(quantity: str) -> str:
    """Return the unit that the name of a quantity ends with; empty if it has none.

    >>> unit_of("torque_nm"), unit_of("radial_load")
    ('Nm', '')
    """
    return UNITS.get(quantity.rpartition("_")[2], "")


def _with_unit(condition: Condition, text: str) -> str:
    return f"{text} {condition.unit}" if condition.unit in UNITS.values() else text


def _rounded(condition: Condition, value: float) -> float:
    """Return a measured value without the digits below the tolerance."""
    # Adding zero makes a negative zero positive.
    return round(value, -floor(log10(condition.tolerance))) + 0.0
