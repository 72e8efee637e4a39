"""The lines that a fault of each part of a machine has, as multiples of the shaft speed and of the supply frequency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, pi
from typing import Literal, TypeAlias

from cgsa.explain.bearings import BearingGeometry
from cgsa.explain.kinematics import GearPair, Kinematics, Motor

Domain: TypeAlias = Literal["vibration", "current", "envelope"]
"""Where a line is: in the spectrum of a vibration or of a current, or in the envelope spectrum."""
HARMONICS = 5
SIDEBANDS = 3
GEAR_SIDEBANDS = 10
"""A damaged tooth is a short event per revolution: its sidebands reach far."""
SLIP_SHARE = 0.01
"""Share by which the balls of a bearing may pass at another rate than pure rolling gives."""


@dataclass(frozen=True)
class Speeds:
    """At what the machine turns."""

    shaft: float
    """Of the first shaft in Hz."""
    supply: float = 0.0
    """Frequency of the supply in Hz; 0 if there is no motor."""


@dataclass(frozen=True)
class NamedLine:
    """A line with its name."""

    name: str
    shaft: float
    """Multiple of the speed of the first shaft..."""
    supply: float = 0.0
    """...plus this multiple of the supply frequency."""
    weight: float = 1.0
    """Counts so much in its family: sidebands count less than what they surround."""

    def frequency(self, speeds: Speeds) -> float:
        """Return the line in Hz."""
        return abs(self.shaft * speeds.shaft + self.supply * speeds.supply)


@dataclass(frozen=True)
class LineFamily:
    """Lines that appear together."""

    part: str
    """Such as ``pinion of second stage``."""
    name: str
    """Of the family, such as ``BPFO of drive end``."""
    meaning: str
    """What it is a sign of, such as ``damage of the outer ring``."""
    domain: Domain
    lines: tuple[NamedLine, ...]
    slip: float = 0.0
    """Share by which all of its lines may be off together: balls do not roll perfectly."""


def line_families(machine: Kinematics) -> list[LineFamily]:
    """Return the families of all parts of a machine."""
    ratios = machine.ratios
    found = [family for name, ratio in ratios.items() for family in _shaft(name, ratio)]
    for pair in machine.gears:
        found += _gears(pair, ratios[pair.driver], ratios[pair.driven])
    for name in dict.fromkeys(shaft for pair in machine.gears for shaft in (pair.driver, pair.driven)):
        # A single damaged tooth strikes once per revolution, whichever gear of the shaft has it.
        strikes = tuple(_harmonics(f"once per revolution of shaft {name}", ratios[name], 2 * HARMONICS))
        meaning = f"a damaged tooth of a gear on shaft {name}"
        found.append(LineFamily(f"gears on shaft {name}", f"impacts of shaft {name}", meaning, "envelope", strikes))
    for belt in machine.belts:
        passing = ratios[belt.driver] * belt.diameters[0] * pi / belt.length
        passes = tuple(_harmonics(belt.name, passing))
        found.append(LineFamily(belt.name, f"belt frequency of {belt.name}", "damage of the belt", "vibration", passes))
    for bearing in machine.bearings:
        found += _bearing(bearing.name, bearing.geometry, ratios[bearing.shaft])
    if machine.motor is not None:
        found += _motor(machine.motor, ratios[machine.motor.shaft])
    return found


def _shaft(name: str, ratio: float) -> Iterator[LineFamily]:
    lines = tuple(_harmonics(f"shaft {name}", ratio))
    meaning = "unbalance, misalignment or looseness"
    yield LineFamily(f"shaft {name}", f"harmonics of shaft {name}", meaning, "vibration", lines)


def _gears(pair: GearPair, driver: float, driven: float) -> Iterator[LineFamily]:
    """Yield one family per gear: the mesh with sidebands at the speed of its shaft."""
    mesh = driver * pair.teeth[0]
    for gear, teeth, ratio in (("pinion", pair.teeth[0], driver), ("gear", pair.teeth[1], driven)):
        part = f"{gear} of {pair.name}"
        lines: list[NamedLine] = []
        for harmonic in range(1, HARMONICS + 1):
            centre = f"{_ordinal(harmonic)}mesh of {pair.name}"
            lines += _with_sidebands(centre, harmonic * mesh, ratio, f"{teeth}-tooth gear", GEAR_SIDEBANDS)
        meaning = f"wear or damage of the {part} ({teeth} teeth)"
        yield LineFamily(part, f"mesh of {pair.name} with sidebands of its {gear}", meaning, "vibration", tuple(lines))
    hunting = mesh * gcd(*pair.teeth) / (pair.teeth[0] * pair.teeth[1])
    if hunting < 0.999 * min(driver, driven):
        lines = list(_harmonics(f"hunting tooth of {pair.name}", hunting))
        meaning = "a damaged tooth on each of both gears"
        yield LineFamily(pair.name, f"hunting tooth of {pair.name}", meaning, "vibration", tuple(lines))


def _bearing(name: str, geometry: BearingGeometry, ratio: float) -> Iterator[LineFamily]:
    """Yield the families of both rings, the balls and the cage, in the envelope."""
    cage = geometry.cage * ratio
    parts = (
        ("BPFO", "outer ring", geometry.outer * ratio, 0.0, ""),
        ("BPFI", "inner ring", geometry.inner * ratio, ratio, "shaft"),
        ("2xBSF", "balls", 2 * geometry.spin * ratio, cage, "cage"),
    )
    for short, part, rate, spacing, modulation in parts:
        # A damaged ball passes the load zone once per revolution of the cage.
        lines = [NamedLine(f"{_ordinal(k)}FTF of {name}", k * cage, weight=1 / k) for k in (1, 2) if part == "balls"]
        for harmonic in range(1, HARMONICS + 1):
            lines += _with_sidebands(f"{_ordinal(harmonic)}{short} of {name}", harmonic * rate, spacing, modulation)
        meaning = f"damage of the {part} of bearing {name}"
        yield LineFamily(f"{part} of {name}", f"{short} of {name}", meaning, "envelope", tuple(lines), SLIP_SHARE)
    # As many as the balls have: then the balls stand for the cage where both speak.
    lines = list(_harmonics(f"FTF of {name}", cage, 2))
    meaning = f"damage of the cage of bearing {name}"
    yield LineFamily(f"cage of {name}", f"FTF of {name}", meaning, "envelope", tuple(lines), SLIP_SHARE)


def _motor(motor: Motor, ratio: float) -> Iterator[LineFamily]:
    """Yield the families of supply, air gap and rotor bars of an induction motor."""
    once, poles = ratio, motor.pole_pairs
    twice = tuple(NamedLine(f"{2 * k}x line frequency", 0.0, 2.0 * k, 1 / k) for k in (1, 2, 3))
    yield LineFamily(
        "supply", "twice line frequency", "an uneven air gap, or unbalance of supply or stator", "vibration", twice
    )
    odd = tuple(NamedLine(f"{k}x line frequency", 0.0, float(k), 1.0) for k in (3, 5, 7, 9))
    yield LineFamily("supply", "odd multiples of line frequency", "unbalance of supply or stator", "current", odd)
    # The pole-pass frequency is 2 (supply - poles * shaft).
    yield LineFamily("rotor", "pole-pass sidebands", "broken rotor bars", "vibration", _pole_pass(once, poles, once, 0))
    yield LineFamily("rotor", "pole-pass sidebands", "broken rotor bars", "current", _pole_pass(once, poles, 0.0, 1))
    rotating = tuple(NamedLine(f"2x line frequency {s:+d} shaft", s * once, 2.0) for s in (-1, 1))
    meaning = "uneven air gap that turns with the rotor (dynamic eccentricity)"
    yield LineFamily("air gap", "shaft sidebands of twice line frequency", meaning, "vibration", rotating)
    if motor.bars is None:
        return
    fixed = "uneven air gap (static eccentricity)"
    for domain, sides in (("vibration", (-2, 0, 2)), ("current", (-3, -1, 1, 3))):
        lines = tuple(
            NamedLine(f"{_ordinal(k)}rotor slots {side:+d}x line frequency", k * motor.bars * once, float(side))
            for k in (1, 2)
            for side in sides
        )
        yield LineFamily("air gap", "rotor slots with line sidebands", fixed, domain, lines)  # type: ignore[arg-type]


def _pole_pass(once: float, poles: int, centre_shaft: float, centre_supply: int) -> tuple[NamedLine, ...]:
    return tuple(
        NamedLine(f"{k:+d} pole-pass", centre_shaft - 2 * k * poles * once, centre_supply + 2.0 * k)
        for k in (-2, -1, 1, 2)
    )


def _harmonics(name: str, order: float, count: int = HARMONICS) -> Iterator[NamedLine]:
    for harmonic in range(1, count + 1):
        yield NamedLine(f"{_ordinal(harmonic)}{name}", harmonic * order)


def _with_sidebands(
    name: str, order: float, spacing: float, modulation: str, count: int = SIDEBANDS
) -> Iterator[NamedLine]:
    """Yield a line and its sidebands; none if the spacing is 0."""
    yield NamedLine(name, order)
    for number in range(1, count + 1) if spacing else ():
        for sign in (-1, 1):
            if (side := order + sign * number * spacing) > 0:
                yield NamedLine(f"{name} {sign * number:+d}x {modulation}", side, weight=0.5)


def _ordinal(harmonic: int) -> str:
    """Return what precedes the name of a harmonic; nothing for the first.

    >>> _ordinal(1), _ordinal(2), _ordinal(3), _ordinal(11)
    ('', '2nd ', '3rd ', '11th ')
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(harmonic % 10 if harmonic // 10 != 1 else 0, "th")
    return "" if harmonic == 1 else f"{harmonic}{ending} "
