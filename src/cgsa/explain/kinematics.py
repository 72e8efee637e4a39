"""A machine's shafts, gears, belts, bearings and motor, as a small TOML section.

```toml
[kinematics]

[[kinematics.shafts]]        # the first one has the measured or given speed
name = "input"

[[kinematics.shafts]]        # its speed follows from the gears
name = "output"

[[kinematics.gears]]
name = "first stage"
driver = "input"
driven = "output"
teeth = [29, 95]

[[kinematics.bearings]]
name = "drive end"
shaft = "input"
part = "6205-2RS"            # or balls, ball_diameter, pitch_diameter and contact_angle

[kinematics.motor]
shaft = "input"
pole_pairs = 1
supply = 50.0                # Hz; or slip = 0.02; or current = "current_a", in which it is measured
bars = 20                    # of the rotor, if known
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from cgsa.config import bind, builtin_files, read_named
from cgsa.errors import ConfigError
from cgsa.explain.bearings import BearingGeometry, published_geometry

SECTION = "kinematics"


@dataclass(frozen=True)
class Shaft:
    """A shaft."""

    name: str
    ratio: float | None = None
    """Revolutions per revolution of the first shaft; None if it follows from gears and belts."""

    def __post_init__(self) -> None:
        if self.ratio is not None and not (isfinite(self.ratio) and self.ratio > 0):
            raise ConfigError(f"shaft {self.name!r}: ratio {self.ratio:g}; expected a positive number")


@dataclass(frozen=True)
class GearPair:
    """Two gears in mesh."""

    name: str
    driver: str
    """Shaft of the first gear."""
    driven: str
    teeth: tuple[int, int]
    """Of the gears on the driving and on the driven shaft."""

    def __post_init__(self) -> None:
        if min(self.teeth) < 2:
            raise ConfigError(f"gears {self.name!r}: {self.teeth[0]} and {self.teeth[1]} teeth; expected 2 or more")

    @property
    def ratio(self) -> float:
        """Revolutions of the driven shaft per revolution of the driving one."""
        return self.teeth[0] / self.teeth[1]


@dataclass(frozen=True)
class Belt:
    """A belt over two pulleys; all lengths are in the same unit."""

    name: str
    driver: str
    driven: str
    diameters: tuple[float, float]
    """Of the pulleys on the driving and on the driven shaft, at the belt."""
    length: float

    def __post_init__(self) -> None:
        if min(self.diameters) <= 0 or self.length <= 1.57 * sum(self.diameters):
            raise ConfigError(
                f"belt {self.name!r}: length {self.length:g} over pulleys of {self.diameters[0]:g} and "
                f"{self.diameters[1]:g}; expected positive diameters and a belt that reaches around both"
            )

    @property
    def ratio(self) -> float:
        """Revolutions of the driven shaft per revolution of the driving one."""
        return self.diameters[0] / self.diameters[1]


@dataclass(frozen=True)
class Bearing:
    """A rolling bearing by its part number or its geometry; the inner ring turns with the shaft."""

    name: str
    shaft: str
    part: str | None = None
    balls: int | None = None
    ball_diameter: float | None = None
    pitch_diameter: float | None = None
    contact_angle: float = 0.0

    def __post_init__(self) -> None:
        self.geometry  # noqa: B018 - an unknown part or an impossible geometry is an error here

    @property
    def geometry(self) -> BearingGeometry:
        """What the fault frequencies depend on."""
        if self.part is not None and (self.balls, self.ball_diameter, self.pitch_diameter) == (None, None, None):
            return published_geometry(self.part)
        if self.balls is None or self.ball_diameter is None or self.pitch_diameter is None:
            raise ConfigError(f"bearing {self.name!r}: expected part, or balls with ball_diameter and pitch_diameter")
        return BearingGeometry(self.balls, self.ball_diameter, self.pitch_diameter, self.contact_angle)


@dataclass(frozen=True)
class Motor:
    """An electric motor; one of ``supply``, ``slip`` and ``current`` gives the frequency of its supply."""

    shaft: str
    pole_pairs: int
    supply: float | None = None
    """In Hz, if it is fixed, as on mains."""
    slip: float | None = None
    """Share by which the rotor is slower than the field; 0 for a synchronous motor."""
    current: str | None = None
    """Channel with a phase current, in which the frequency is measured."""
    bars: int | None = None
    """Rotor bars of an induction motor."""

    def __post_init__(self) -> None:
        given = [one for one in (self.supply, self.slip, self.current) if one is not None]
        if len(given) != 1 or self.pole_pairs < 1 or (self.bars is not None and self.bars < 2):
            raise ConfigError(
                f"motor with {self.pole_pairs} pole pairs: expected 1 or more, one of supply, slip and current, and 2 "
                "or more bars if any"
            )
        if (self.supply is not None and self.supply <= 0) or (self.slip is not None and not 0 <= self.slip < 1):
            raise ConfigError("motor: expected a supply above 0 Hz and a slip from 0 to less than 1")


@dataclass(frozen=True)
class Kinematics:
    """What turns in a machine; the speed of the first shaft is the one that is measured or given."""

    shafts: tuple[Shaft, ...]
    gears: tuple[GearPair, ...] = ()
    belts: tuple[Belt, ...] = ()
    bearings: tuple[Bearing, ...] = ()
    motor: Motor | None = None

    def __post_init__(self) -> None:
        if not self.shafts:
            raise ConfigError("no shaft; expected at least one, whose speed is known")
        groups = (self.shafts, self.gears, self.belts, self.bearings)
        names = [one.name for group in groups for one in group]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"{', '.join(twice)}: more than one part of this name; expected different names")
        known = [shaft.name for shaft in self.shafts]
        used = [name for pair in self._pairs for name in (pair.driver, pair.driven)]
        used += [one.shaft for one in self.bearings] + ([self.motor.shaft] if self.motor else [])
        unknown = sorted(set(used) - set(known))
        if unknown:
            raise ConfigError(f"no shaft {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
        still = [name for name in known if name not in self.ratios]
        if still:
            raise ConfigError(
                f"the speed of shaft {', '.join(map(repr, still))} is open; connect it by gears or belts, or give its "
                "ratio"
            )

    @property
    def _pairs(self) -> list[GearPair | Belt]:
        return [*self.gears, *self.belts]

    @property
    def ratios(self) -> Mapping[str, float]:
        """Revolutions of every shaft per revolution of the first one."""
        found = {one.name: one.ratio for one in self.shafts if one.ratio is not None}
        found.setdefault(self.shafts[0].name, 1.0)
        # Every pass reaches at least one more shaft, or the rest cannot be reached.
        for _ in self._pairs:
            for pair in self._pairs:
                if pair.driver in found and pair.driven not in found:
                    found[pair.driven] = found[pair.driver] * pair.ratio
                elif pair.driven in found and pair.driver not in found:
                    found[pair.driver] = found[pair.driven] / pair.ratio
        return found


def kinematics_from(values: Mapping[str, object], where: str) -> Kinematics | None:
    """Return the kinematics in the table of a machine's file; None if it has no such section."""
    section = values.get(SECTION)
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise ConfigError(f"{where}: {SECTION}: expected a table, got {section!r}")
    return bind(Kinematics, section, f"{where}: {SECTION}")


def load_kinematics(name_or_path: str | Path) -> Kinematics:
    """Read the kinematics of a machine that comes with cgsa by its name, or those in a file by its path."""
    found = kinematics_from(read_named(name_or_path, builtin_files("explain/machines"), "machine"), str(name_or_path))
    if found is None:
        raise ConfigError(f"{name_or_path}: no section [{SECTION}]; docs/explain.md shows one")
    return found
