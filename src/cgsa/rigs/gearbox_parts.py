"""Specimens of the gearbox rig: the parts of one assembly, and the effect of faults on them."""

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
    """Effect of a severe fault on the 36-tooth gear; a lesser fault has a share of it."""

    wear: float = 0.0
    """Depth of the worn profile, m, on every tooth."""
    play: float = 0.0
    """Additional backlash, m."""
    softening: float = 0.0
    """Share of the stiffness that every tooth loses."""
    broken: float = 0.0
    """Share of the face width that is missing from one tooth."""
    set_back: float = 0.0
    """Distance by which the rest of that tooth is set back, m."""
    crack: float = 0.0
    """Share of its stiffness that one tooth loses while its crack is fully open."""
    debris: float = 0.0
    """Relative growth of roughness and profile deviation in the second stage due to particles in the oil."""


FAULTS = {
    "health": GearFault(),
    "gear_wear": GearFault(wear=5e-6, play=60e-6, softening=0.07, debris=0.3),
    "teeth_break": GearFault(broken=0.75, set_back=3e-6, debris=0.25),
    "teeth_crack": GearFault(crack=0.75, set_back=2e-6, debris=0.1),
}

# Nominal values. A gear of this quality (ISO 1328 class 6) may deviate a little more.
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

# Spread between assemblies: standard deviation of the logarithm for sizes, of the ratio for the structure.
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
    """Force at the coupling that rotates twice per revolution, N."""
    angles: DoubleArray
    """Angles of unbalance and misalignment on the motor shaft, rad."""
    roughness: DoubleArray
    """Random part of each gear's bearing force over its nominal value."""


def assemble_gearbox(state: str, severity: Severity, rng: np.random.Generator) -> GearboxSpecimen:
    """Return the specimen that ``rng`` determines; all states draw the same numbers and have the same spread."""
    fault, size = FAULTS[state], SEVERITY[severity]
    first = _mesh(rng, 0)
    second = _with_fault(_mesh(rng, 1), fault, size, rng)
    roughness = _log_normal(1.0, rng, 4)
    roughness[2:] *= 1 + size * fault.debris
    return GearboxSpecimen(
        first=first,
        second=second,
        preload=float(_log_normal(1.0, rng, spread=0.08)),
        structure=GEARBOX_HOUSING.reassembled(rng, shift=_MODE_SHIFT, spread=_PATH_SPREAD),
        unbalance=float(_log_normal(_UNBALANCE, rng)),
        misalignment=float(_log_normal(_MISALIGNMENT, rng)),
        angles=rng.uniform(0, 2 * np.pi, 2),
        roughness=roughness,
    )


def _log_normal(
    nominal: float, rng: np.random.Generator, count: int | None = None, spread: float = _SIZE_SPREAD
) -> DoubleArray:
    """Draw positive values around ``nominal``."""
    return nominal * np.exp(spread * np.asarray(rng.standard_normal(count)))


def _mesh(rng: np.random.Generator, stage: int) -> model.Mesh:
    """Return the healthy mesh of one stage, with manufacturing errors."""
    driver, driven = model.TEETH[2 * stage : 2 * stage + 2]
    ratio = _CONTACT_RATIO[stage]
    stiffness = float(_log_normal(_PAIR_STIFFNESS, rng, spread=_STIFFNESS_SPREAD))
    relief = model.pair_relief(ratio, float(_log_normal(_RELIEF, rng)))
    return model.Mesh(
        stiffness=stiffness,
        damping=2 * _MESH_DAMPING_RATIO * float(np.sqrt(stiffness * model.MESH_MASS[stage])),
        backlash=float(_log_normal(_BACKLASH, rng)),
        contact_ratio=ratio,
        weight=model.pair_weight(ratio),
        driver_flank=relief + _flank(driver, ratio, rng),
        driven_flank=_flank(driven, ratio, rng),
        driver_scale=np.ones(driver),
        driver_crack=np.zeros(driver),
        runout=(float(_log_normal(_RUNOUT, rng)), float(_log_normal(_RUNOUT, rng))),
    )


def _flank(teeth: int, contact_ratio: float, rng: np.random.Generator) -> DoubleArray:
    """Draw pitch error and profile deviation (slope, crown, waviness from the cutting) of every tooth of a gear."""
    position = _flank_position(contact_ratio)
    slope, wave = rng.normal(0, [0.5, 0.3])
    shape = 0.6 * position**2 + slope * position + wave * np.cos(2 * np.pi * position)
    depth = float(_log_normal(_FORM, rng)) * _tooth_variation(teeth, rng, unevenness=0.15)
    return np.outer(depth, shape) + _PITCH * rng.standard_normal((teeth, 1))


def _flank_position(contact_ratio: float) -> DoubleArray:
    """Return the contact position on the flank: -1 at the start of contact, 0 at the pitch point, 1 at the end."""
    return np.clip(2 * model.path_of_contact(contact_ratio) / contact_ratio - 1, -1, 1)


def _tooth_variation(teeth: int, rng: np.random.Generator, *, unevenness: float) -> DoubleArray:
    """Draw the relative deviation of each tooth: it follows the runout and varies from tooth to tooth."""
    angle = 2 * np.pi * np.arange(teeth) / teeth + rng.uniform(0, 2 * np.pi)
    return 1 + 0.5 * np.cos(angle) + unevenness * rng.standard_normal(teeth)


def _with_fault(mesh: model.Mesh, fault: GearFault, size: float, rng: np.random.Generator) -> model.Mesh:
    """Return the mesh with ``fault`` on its driver; tooth 0 breaks or cracks."""
    position = _flank_position(mesh.contact_ratio)
    # Flanks roll at the pitch point and slide most at root and tip; the root wears more.
    profile = (0.5 + 0.5 * position**2) * (1 - 0.2 * position)
    worn = size * fault.wear * _tooth_variation(len(mesh.driver_flank), rng, unevenness=0.4)
    flank = mesh.driver_flank + np.outer(worn, profile)
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


# One value per mode of the rig.
_MODE_FREQUENCY = np.array([52.0, 165, 270, 430, 570, 880, 1130, 1420, 1830, 2210, 2850, 3540, 4270, 5020])  # Hz
_MODE_DAMPING = np.array([80, 30, 30, 25, 25, 25, 22, 22, 20, 20, 20, 20, 20, 20]) / 1000
_MODE_MASS = np.array([80.0, 45, 40, 25, 20, 24, 22, 12, 20, 25, 35, 35, 35, 45])  # kg
# 1 for a mode of the gearbox housing, 0 for one of the motor and its foot, between them for the base plate.
_ON_GEARBOX = np.array([0.5, 0.5, 0.3, 0.7, 0.9, 0.8, 0.3, 0.9, 0.8, 0.3, 0.8, 0.6, 0.9, 0.4])
# Coupling of each sensor axis, motor x y z then gearbox x y z; set by the levels of the recorded rows.
_AXIS_GAIN = np.array([2.0, 1.0, 2.1, 1.5, 1.5, 0.53])


def _housing() -> Structure:
    """Return the nominal housing, motor foot and base plate.

    Mode shapes without measurements are drawn once from a fixed seed, since all
    specimens are built into the same rig.
    """
    rng = np.random.Generator(np.random.PCG64(29_95_36_90))
    near_gearbox, near_motor = 0.2 + 0.8 * _ON_GEARBOX[:, None], 1.0 - 0.8 * _ON_GEARBOX[:, None]
    near_sensor = np.hstack([np.tile(near_motor, 3), np.tile(near_gearbox, 3)])
    near_force = np.hstack([np.tile(near_gearbox, 4), np.tile(near_motor, 3)])
    at_sensor = near_sensor * rng.choice([-1, 1], near_sensor.shape) * rng.uniform(0.4, 1.4, near_sensor.shape)
    at_force = near_force * rng.choice([-1, 1], near_force.shape) * rng.uniform(0.4, 1.4, near_force.shape)
    gains = _AXIS_GAIN[:, None] * at_sensor[:, :, None] * at_force[:, None, :] / _MODE_MASS[:, None, None]
    return Structure(_MODE_FREQUENCY, _MODE_DAMPING, gains)


GEARBOX_HOUSING = _housing()
