"""Parts of the gearbox rig: what one assembly of it is made of, and what the faults do to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cgsa.data.run import Severity
from cgsa.rigs import gearbox_model as model
from cgsa.rigs.base import DoubleArray
from cgsa.rigs.structure import Structure

SEVERITY: dict[Severity, float] = {"L": 0.6, "M": 0.8, "H": 1.0}
"""Size of a fault relative to the severe one."""


@dataclass(frozen=True)
class GearFault:
    """What a severe fault does to the 36-tooth gear; a lesser one does its share of it."""

    wear: float = 0.0
    """Depth of the worn profile, m, on every tooth."""
    play: float = 0.0
    """Backlash added, m."""
    softening: float = 0.0
    """Share of the stiffness that every tooth loses."""
    broken: float = 0.0
    """Share of the face width that one tooth has lost."""
    set_back: float = 0.0
    """How far what is left of that tooth stands back, m."""
    crack: float = 0.0
    """Share of its stiffness that one tooth loses with its crack wide open."""
    debris: float = 0.0
    """Relative growth of roughness and profile deviation in the second stage through particles in the oil."""


FAULTS = {
    "health": GearFault(),
    "gear_wear": GearFault(wear=5e-6, play=60e-6, softening=0.07, debris=0.3),
    "teeth_break": GearFault(broken=0.75, set_back=3e-6, debris=0.25),
    "teeth_crack": GearFault(crack=0.75, set_back=2e-6, debris=0.1),
}

# Nominal sizes. A gear of this quality (ISO 1328 class 6) may deviate a little more than these.
_PAIR_STIFFNESS = 2.0e8  # N/m: 14 N/(mm um) over 15 mm of face
_MESH_DAMPING_RATIO = 0.08
_CONTACT_RATIO = (1.72, 1.74)
_BACKLASH = 80e-6
_RELIEF = 3e-6
_FORM = 1.4e-6
_PITCH = 0.6e-6
_RUNOUT = 10e-6
_UNBALANCE = 6e-5  # kg m, balance grade G 2.5 of an 8 kg rotor at 3000 rpm
_MISALIGNMENT = 6.0  # N at the coupling

# Spread from assembly to assembly: standard deviation of the logarithm for sizes, of the ratio for the structure.
_SIZE_SPREAD = 0.25
_STIFFNESS_SPREAD = 0.03
_MODE_SHIFT = 0.012
_PATH_SPREAD = 0.12


@dataclass(frozen=True, eq=False)
class GearboxSpecimen:
    """One assembly of the rig."""

    first: model.Mesh
    second: model.Mesh
    preload: float
    """Bearing stiffness over its nominal value."""
    structure: Structure
    unbalance: float
    """Of the motor rotor, kg m."""
    misalignment: float
    """Force at the coupling that turns twice a revolution, N."""
    angles: DoubleArray
    """Where unbalance and misalignment stand on the motor shaft, rad."""
    roughness: DoubleArray
    """Size of the random part of each gear's bearing force over nominal."""


def assemble_gearbox(state: str, severity: Severity, rng: np.random.Generator) -> GearboxSpecimen:
    """Return the specimen that ``rng`` draws; every state draws the same numbers, so all spread alike."""
    fault, size = FAULTS[state], SEVERITY[severity]
    first = _mesh(rng, 0)
    second = _damaged(_mesh(rng, 1), fault, size, rng)
    roughness = _around(1.0, rng, 4)
    roughness[2:] *= 1 + size * fault.debris
    return GearboxSpecimen(
        first=first,
        second=second,
        preload=float(_around(1.0, rng, spread=0.08)),
        structure=GEARBOX_HOUSING.reassembled(rng, shift=_MODE_SHIFT, spread=_PATH_SPREAD),
        unbalance=float(_around(_UNBALANCE, rng)),
        misalignment=float(_around(_MISALIGNMENT, rng)),
        angles=rng.uniform(0, 2 * np.pi, 2),
        roughness=roughness,
    )


def _around(
    nominal: float, rng: np.random.Generator, count: int | None = None, spread: float = _SIZE_SPREAD
) -> DoubleArray:
    """Draw sizes around ``nominal`` that are never negative."""
    return nominal * np.exp(spread * np.asarray(rng.standard_normal(count)))


def _mesh(rng: np.random.Generator, stage: int) -> model.Mesh:
    """Return the healthy mesh of one stage with its manufacturing errors."""
    driver, driven = model.TEETH[2 * stage : 2 * stage + 2]
    ratio = _CONTACT_RATIO[stage]
    stiffness = float(_around(_PAIR_STIFFNESS, rng, spread=_STIFFNESS_SPREAD))
    relief = model.pair_relief(ratio, float(_around(_RELIEF, rng)))
    return model.Mesh(
        stiffness=stiffness,
        damping=2 * _MESH_DAMPING_RATIO * float(np.sqrt(stiffness * model.MESH_MASS[stage])),
        backlash=float(_around(_BACKLASH, rng)),
        contact_ratio=ratio,
        weight=model.pair_weight(ratio),
        driver_flank=relief + _flank(driver, ratio, rng),
        driven_flank=_flank(driven, ratio, rng),
        driver_scale=np.ones(driver),
        driver_crack=np.zeros(driver),
        runout=(float(_around(_RUNOUT, rng)), float(_around(_RUNOUT, rng))),
    )


def _flank(teeth: int, contact_ratio: float, rng: np.random.Generator) -> DoubleArray:
    """Draw pitch error and profile deviation (slope, crown, a wave from the cutting) of every tooth of a gear."""
    across = _across(contact_ratio)
    slope, wave = rng.normal(0, [0.5, 0.3])
    shape = 0.6 * across**2 + slope * across + wave * np.cos(2 * np.pi * across)
    depth = float(_around(_FORM, rng)) * _around_the_gear(teeth, rng, unevenness=0.15)
    return np.outer(depth, shape) + _PITCH * rng.standard_normal((teeth, 1))


def _across(contact_ratio: float) -> DoubleArray:
    """Return where on the flank a pair touches: from -1 at the start of contact over the pitch point to 1."""
    return np.clip(2 * model.path_of_contact(contact_ratio) / contact_ratio - 1, -1, 1)


def _around_the_gear(teeth: int, rng: np.random.Generator, *, unevenness: float) -> DoubleArray:
    """Spread a deviation of size one over the teeth: it follows the runout and differs from tooth to tooth."""
    turn = 2 * np.pi * np.arange(teeth) / teeth + rng.uniform(0, 2 * np.pi)
    return 1 + 0.5 * np.cos(turn) + unevenness * rng.standard_normal(teeth)


def _damaged(mesh: model.Mesh, fault: GearFault, size: float, rng: np.random.Generator) -> model.Mesh:
    """Return the mesh with ``fault`` on its driver; tooth 0 is the one that breaks or cracks."""
    across = _across(mesh.contact_ratio)
    # Flanks roll at the pitch point and slide most at root and tip, and the root suffers more.
    hollow = (0.5 + 0.5 * across**2) * (1 - 0.2 * across)
    worn = size * fault.wear * _around_the_gear(len(mesh.driver_flank), rng, unevenness=0.4)
    flank = mesh.driver_flank + np.outer(worn, hollow)
    flank[0] += size * fault.set_back
    scale = mesh.driver_scale * (1 - size * fault.softening)
    scale[0] *= 1 - size * fault.broken
    crack = mesh.driver_crack.copy()
    crack[0] = size * fault.crack
    return mesh._replace(
        backlash=mesh.backlash + size * fault.play,
        driver_flank=flank,
        driven_flank=mesh.driven_flank * (1 + size * fault.debris),
        driver_scale=scale,
        driver_crack=crack,
    )


@dataclass(frozen=True)
class _Mode:
    frequency: float
    damping: float
    mass: float
    on_gearbox: float
    """One for a mode of the gearbox housing, nil for one of the motor and its foot, between for the base plate."""


_MODES = (
    _Mode(52, 0.080, 80.0, 0.5),
    _Mode(165, 0.030, 45.0, 0.5),
    _Mode(270, 0.030, 40.0, 0.3),
    _Mode(430, 0.025, 25.0, 0.7),
    _Mode(570, 0.025, 20.0, 0.9),
    _Mode(880, 0.025, 24.0, 0.8),
    _Mode(1130, 0.022, 22.0, 0.3),
    _Mode(1420, 0.022, 12.0, 0.9),
    _Mode(1830, 0.020, 20.0, 0.8),
    _Mode(2210, 0.020, 25.0, 0.3),
    _Mode(2850, 0.020, 35.0, 0.8),
    _Mode(3540, 0.020, 35.0, 0.6),
    _Mode(4270, 0.020, 35.0, 0.9),
    _Mode(5020, 0.020, 45.0, 0.4),
)
# How well each sensor axis couples, motor x y z then gearbox x y z; set by the levels of the recorded rows.
_AXIS_GAIN = np.array([2.0, 1.0, 2.1, 1.5, 1.5, 0.53])


def _housing() -> Structure:
    """Return the nominal housing, motor foot and base plate.

    Where nothing measured a mode shape it is drawn once, from a fixed seed:
    the rig is one rig, whatever specimen is built into it.
    """
    rng = np.random.Generator(np.random.PCG64(29_95_36_90))
    on_gearbox = np.array([mode.on_gearbox for mode in _MODES])[:, None]
    near_sensor = np.hstack([np.tile(1.0 - 0.8 * on_gearbox, 3), np.tile(0.2 + 0.8 * on_gearbox, 3)])
    near_force = np.hstack([np.tile(0.2 + 0.8 * on_gearbox, 4), np.tile(1.0 - 0.8 * on_gearbox, 3)])
    at_sensor = near_sensor * rng.choice([-1, 1], near_sensor.shape) * rng.uniform(0.4, 1.4, near_sensor.shape)
    at_force = near_force * rng.choice([-1, 1], near_force.shape) * rng.uniform(0.4, 1.4, near_force.shape)
    mass = np.array([mode.mass for mode in _MODES])[:, None, None]
    return Structure(
        frequencies=np.array([mode.frequency for mode in _MODES]),
        damping=np.array([mode.damping for mode in _MODES]),
        gains=_AXIS_GAIN[:, None] * at_sensor[:, :, None] * at_force[:, None, :] / mass,
    )


GEARBOX_HOUSING = _housing()
