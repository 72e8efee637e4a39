"""Units: one spelling for each, and conversion between units of one quantity."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from cgsa.errors import DataError

STANDARD_GRAVITY = 9.80665
"""m/s^2."""


class _Unit(NamedTuple):
    """A unit: ``value * factor + offset`` is in the base unit of its quantity."""

    quantity: str
    factor: float
    offset: float = 0.0


UNITS: dict[str, _Unit] = {
    "m/s^2": _Unit("acceleration", 1.0),
    "mm/s^2": _Unit("acceleration", 1e-3),
    "g": _Unit("acceleration", STANDARD_GRAVITY),
    "mg": _Unit("acceleration", STANDARD_GRAVITY * 1e-3),
    "m/s": _Unit("velocity", 1.0),
    "mm/s": _Unit("velocity", 1e-3),
    "um/s": _Unit("velocity", 1e-6),
    "in/s": _Unit("velocity", 0.0254),
    "m": _Unit("displacement", 1.0),
    "mm": _Unit("displacement", 1e-3),
    "um": _Unit("displacement", 1e-6),
    "mil": _Unit("displacement", 2.54e-5),
    "A": _Unit("current", 1.0),
    "mA": _Unit("current", 1e-3),
    "kA": _Unit("current", 1e3),
    "V": _Unit("voltage", 1.0),
    "mV": _Unit("voltage", 1e-3),
    "uV": _Unit("voltage", 1e-6),
    "kV": _Unit("voltage", 1e3),
    "Pa": _Unit("pressure", 1.0),
    "kPa": _Unit("pressure", 1e3),
    "MPa": _Unit("pressure", 1e6),
    "bar": _Unit("pressure", 1e5),
    "mbar": _Unit("pressure", 1e2),
    "psi": _Unit("pressure", 6894.757293168361),
    "Hz": _Unit("frequency", 1.0),
    "kHz": _Unit("frequency", 1e3),
    "rpm": _Unit("frequency", 1 / 60),
    "rad/s": _Unit("frequency", 1 / (2 * math.pi)),
    "Nm": _Unit("torque", 1.0),
    "kNm": _Unit("torque", 1e3),
    "lbf ft": _Unit("torque", 1.3558179483314004),
    "N": _Unit("force", 1.0),
    "kN": _Unit("force", 1e3),
    "lbf": _Unit("force", 4.4482216152605),
    "degC": _Unit("temperature", 1.0, 273.15),
    "degF": _Unit("temperature", 5 / 9, 459.67 * 5 / 9),
    "K": _Unit("temperature", 1.0),
    "W": _Unit("power", 1.0),
    "kW": _Unit("power", 1e3),
    "s": _Unit("time", 1.0),
    "ms": _Unit("time", 1e-3),
    "us": _Unit("time", 1e-6),
    "ns": _Unit("time", 1e-9),
    "min": _Unit("time", 60.0),
    "deg": _Unit("angle", math.pi / 180),
    "rad": _Unit("angle", 1.0),
    "%": _Unit("ratio", 0.01),
    "1": _Unit("ratio", 1.0),
}
OTHER_SPELLINGS: dict[str, tuple[str, ...]] = {
    "m/s^2": (
        "m/s2",
        "m/s/s",
        "m s-2",
        "m*s^-2",
        "ms-2",
        "m/(s^2)",
        "m/sec^2",
        "m/s**2",
    ),
    "mm/s^2": (
        "mm/s2",
        "mm/s**2",
        "mm s-2",
        "mm/sec^2",
    ),
    "g": (
        "G",
        "gn",
        "g0",
        "g_n",
        "gs",
        "gravity",
        "gee",
    ),
    "m/s": (
        "m s-1",
        "m/sec",
    ),
    "mm/s": (
        "mm s-1",
        "mm/sec",
        "mmps",
    ),
    "in/s": (
        "ips",
        "inch/s",
        "in/sec",
    ),
    "um": (
        "micron",
        "microns",
        "micrometer",
    ),
    "A": (
        "amp",
        "amps",
        "ampere",
        "Ampere",
        "Amp",
    ),
    "V": (
        "volt",
        "volts",
        "Volt",
        "Volts",
    ),
    "Pa": (
        "pascal",
        "Pascal",
    ),
    "Hz": (
        "hz",
        "HZ",
        "1/s",
        "hertz",
        "Hertz",
        "s-1",
    ),
    "rpm": (
        "RPM",
        "Rpm",
        "1/min",
        "r/min",
        "rev/min",
        "U/min",
        "min-1",
        "min^-1",
        "tr/min",
    ),
    "Nm": (
        "N m",
        "N*m",
        "N.m",
        "N-m",
    ),
    "kNm": (
        "kN m",
        "kN*m",
        "kN.m",
    ),
    "lbf ft": (
        "ft lbf",
        "ft-lb",
        "ftlb",
        "lb-ft",
        "lbf*ft",
        "ft*lbf",
    ),
    "degC": (
        "C",
        "°C",
        "deg C",
        "Celsius",
        "celsius",
        "ºC",
    ),
    "degF": (
        "F",
        "°F",
        "deg F",
        "Fahrenheit",
    ),
    "K": (
        "kelvin",
        "Kelvin",
    ),
    "s": (
        "sec",
        "secs",
        "second",
        "seconds",
        "Sekunden",
        "S",
    ),
    "ms": (
        "msec",
        "millisecond",
        "milliseconds",
    ),
    "us": (
        "usec",
        "microsecond",
        "microseconds",
    ),
    "ns": (
        "nsec",
        "nanosecond",
        "nanoseconds",
    ),
    "deg": (
        "°",
        "degree",
        "degrees",
    ),
    "rad/s": (
        "rad/sec",
        "1/s rad",
    ),
    "%": (
        "percent",
        "Prozent",
    ),
    "1": (
        "-",
        "none",
        "dimensionless",
        "unitless",
    ),
}
"""For the units above."""
_UNIT_OF = {text: unit for unit, texts in OTHER_SPELLINGS.items() for text in texts}
_CHARACTERS = str.maketrans({"²": "^2", "µ": "u", "μ": "u", "·": "*", "⋅": "*", "\u00d7": "*", "⁻": "-", "¹": "1"})


def normalise_unit(text: str) -> str:
    """Return the usual spelling of a unit; a unit that is not in the table stays as it is.

    >>> normalise_unit("m/s²"), normalise_unit("[N·m]"), normalise_unit("U/min"), normalise_unit("furlong")
    ('m/s^2', 'Nm', 'rpm', 'furlong')
    """
    plain = " ".join(re.sub(r"^\s*[\[(]\s*(.*?)\s*[\])]\s*$", r"\1", text).split())
    usual = plain.translate(_CHARACTERS)
    found = usual if usual in UNITS else _UNIT_OF.get(plain) or _UNIT_OF.get(usual)
    return found or plain


def is_unit(text: str) -> bool:
    """Return whether a text is a unit of the table, in any spelling."""
    return normalise_unit(text) in UNITS


class Conversion(NamedTuple):
    """``value * factor + offset`` is in the other unit."""

    factor: float
    offset: float


def unit_conversion(given: str, wanted: str) -> Conversion:
    """Return the conversion from one unit to another of the same quantity.

    >>> unit_conversion("g", "m/s^2").factor, unit_conversion("Hz", "rpm").factor
    (9.80665, 60.0)

    Raises
    ------
    DataError
        If one of the units is unknown, or their quantities differ.
    """
    one, other = normalise_unit(given), normalise_unit(wanted)
    if one == other:
        return Conversion(1.0, 0.0)
    for unit in (one, other):
        if unit not in UNITS:
            raise DataError(f"cannot convert {given!r} to {wanted!r}: unit {unit!r} is unknown; known: {known_units()}")
    source, target = UNITS[one], UNITS[other]
    if source.quantity != target.quantity:
        raise DataError(
            f"cannot convert {given!r} to {wanted!r}: the one is a unit of {source.quantity}, the other of "
            f"{target.quantity}"
        )
    return Conversion(source.factor / target.factor, (source.offset - target.offset) / target.factor)


def known_units() -> str:
    """Return all units of the table as one text."""
    return ", ".join(UNITS)
