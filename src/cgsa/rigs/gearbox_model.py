"""Drive train of the gearbox rig: motor, two spur meshes, brake, shafts in their bearings.

Six rotations and four lateral motions along the lines of action, integrated
with a fixed step. Positive rotation is the working direction of each shaft, so
a mesh is loaded where the driving gear runs ahead of the driven one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, pi, sin, tanh
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.signal as sps
from numba import njit

from cgsa.data.run import SAMPLE_RATE
from cgsa.rigs.base import DoubleArray

Fast: TypeAlias = npt.NDArray[np.float32]

OVERSAMPLING = 8
"""Steps a recorded sample: 102.4 kHz resolves the mesh resonances near 6 kHz."""

MODULE = 1.5e-3
PRESSURE_ANGLE = np.radians(20.0)
TEETH = (29, 95, 36, 90)
"""Input pinion, first gear, pinion of the second stage (it carries the faults), output gear."""
RATIO = (TEETH[1] / TEETH[0]) * (TEETH[3] / TEETH[2])
BASE_RADIUS = tuple(0.5 * MODULE * teeth * float(np.cos(PRESSURE_ANGLE)) for teeth in TEETH)
_R1, _R2, _R3, _R4 = BASE_RADIUS

# Inertias in kg m^2: motor with half coupling, four gears with their shaft, brake with half coupling.
_INERTIA = (3.0e-3, 6.0e-5, 3.3e-3, 1.4e-4, 2.9e-3, 1.5e-2)
# Torsional springs in Nm/rad and dampers in Nm s/rad: elastic coupling, intermediate shaft, output shaft with coupling.
_TWIST_SPRING = (900.0, 3.8e4, 3.0e3)
_TWIST_DAMPER = (0.08, 0.08, 0.6)
# Moving masses in kg at the four gears, bearing springs in N/m and dampers in N s/m.
_MASS = (0.7, 2.2, 1.0, 2.6)
_BEARING_SPRING = 9.0e7
_BEARING_DAMPER = (800.0, 1400.0, 1000.0, 1500.0)
_BEND_SPRING = 4.0e7  # the intermediate shaft ties its two gears together
# Drag: torque in Nm that opposes motion, and Nm s/rad that grows with it, at input, intermediate and output shaft.
_DRAG = (0.15, 0.25, 0.80)
_VISCOUS = (4.0e-4, 1.0e-3, 2.0e-3)
STANDSTILL_SPEED = 0.5
"""Speed in rad/s over which dry friction and the brake turn round at standstill."""

SLIP_STIFFNESS = 190.0
"""Motor torque in Nm at a slip of one: 1.5 % slip at 3 Nm, as the excerpt at 2959 rpm asks for."""

TABLE_MARGIN = 0.5
"""Pitches before and after the regular path of contact that the tables of a tooth pair reach."""
TABLE_STEP = 1 / 128
MESH_MASS = tuple(
    1 / (BASE_RADIUS[gear] ** 2 / _INERTIA[gear + 1] + BASE_RADIUS[gear + 1] ** 2 / _INERTIA[gear + 2])
    for gear in (0, 2)
)
"""Mass in kg that each mesh feels along its line of action."""
_CORNER = 6.0e-4  # m per squared pitch: how fast flanks part outside the regular path of contact
_FILM = 400.0  # N s/m of the oil that is squeezed between flanks apart
_HERTZ = 2.0e-6  # m of approach at which a flank has half of its full stiffness
_CRACK_OPENING = 1.5e-6  # m of deflection at which a crack stands half open


class Mesh(NamedTuple):
    """One pair of gears in contact."""

    stiffness: float
    """Full stiffness of one tooth pair at the pitch point, N/m."""
    damping: float
    """Damper of one tooth pair at full stiffness, N s/m."""
    backlash: float
    """Play between the back flanks along the line of action, m."""
    contact_ratio: float
    weight: DoubleArray
    """Stiffness along the path of contact over ``stiffness``."""
    driver_flank: DoubleArray
    """Material missing on each tooth of the driver along the path of contact, m, (teeth, places)."""
    driven_flank: DoubleArray
    """The same of the driven gear; negative where there is too much."""
    driver_scale: DoubleArray
    """Share of the stiffness that each tooth of the driver has left."""
    driver_crack: DoubleArray
    """Share of its stiffness that each tooth of the driver loses where its crack is wide open."""
    runout: tuple[float, float]
    """Eccentricity of driver and driven gear along the line of action, m."""
    start: float = 0.0
    """Teeth by which the driver is turned at the start of the run."""
    mate: int = 0
    """Number of the driven tooth that the driver's tooth 0 met first."""


class DriveTrain(NamedTuple):
    """The drive train of one specimen, as one run finds it."""

    first: Mesh
    second: Mesh
    preload: float
    """Bearing stiffness over its nominal value."""
    key_duty: float
    """Share of a turn of the motor shaft during which the key-phase mark stands before its sensor."""


class GearboxMotion(NamedTuple):
    """What the drive train did, at the recording rate."""

    bearing_forces: DoubleArray
    """Dynamic and static force of the four gears on the housing, N, (4, samples)."""
    motor_angle: DoubleArray
    """Rotation of the motor shaft, rad."""
    motor_speed: DoubleArray
    """Speed of the motor shaft, rad/s."""
    key_phase: DoubleArray
    """Key-phase pulse between 0 and 1, band-limited."""


def path_of_contact(contact_ratio: float) -> DoubleArray:
    """Return the positions, in pitches since the regular start of contact, at which pair tables are sampled."""
    count = int(np.ceil((contact_ratio + 2 * TABLE_MARGIN) / TABLE_STEP)) + 2
    return np.asarray(-TABLE_MARGIN + TABLE_STEP * np.arange(count, dtype=np.float64))


def pair_weight(contact_ratio: float) -> DoubleArray:
    """Stiffness of a tooth pair along the path of contact: softest where one of the teeth is met at its tip."""
    across = 2 * path_of_contact(contact_ratio) / contact_ratio - 1
    return np.maximum(1 - 0.3 * across**2, 0.3)


def pair_relief(contact_ratio: float, relief: float, zone: float = 0.3) -> DoubleArray:
    """Gap between the flanks of a pair: quadratic ``relief`` over ``zone`` pitches, and the corners beyond."""
    path = path_of_contact(contact_ratio)
    inside = np.minimum(path, contact_ratio - path)
    return relief * (np.clip(zone - inside, 0, None) / zone) ** 2 + _CORNER * np.clip(-inside, 0, None) ** 2


def _mesh_force(gap_closed: float, closing: float, phase: float, mesh: Mesh) -> float:
    """Force between two gears whose line-of-action approach is ``gap_closed``, summed over the tooth pairs."""
    driver_teeth = mesh.driver_flank.shape[0]
    driven_teeth = mesh.driven_flank.shape[0]
    first = floor(phase)
    elastic = 0.0
    stiffness = 0.0
    for back in range(-1, 3):
        along = phase - first + back
        if -TABLE_MARGIN < along < mesh.contact_ratio + TABLE_MARGIN:
            place = (along + TABLE_MARGIN) / TABLE_STEP
            cell = int(place)
            part = place - cell
            driver = int(first - back) % driver_teeth
            driven = int(first - back + mesh.mate) % driven_teeth
            here = mesh.driver_flank[driver, cell] + mesh.driven_flank[driven, cell]
            there = mesh.driver_flank[driver, cell + 1] + mesh.driven_flank[driven, cell + 1]
            deflection = gap_closed - here - part * (there - here)
            if deflection > 0:
                pair = mesh.stiffness * mesh.weight[cell] * mesh.driver_scale[driver]
                pair *= 1 - mesh.driver_crack[driver] * deflection / (deflection + _CRACK_OPENING)
                # Flanks touch over an area that grows with the load, so a light contact is a soft one.
                pair *= deflection / (deflection + _HERTZ)
                elastic += pair * deflection
                stiffness += pair
    if stiffness > 0:
        return max(elastic + mesh.damping * stiffness / mesh.stiffness * closing, 0.0)
    back_flank = gap_closed + mesh.backlash
    if back_flank < 0:
        return min(mesh.stiffness * back_flank + mesh.damping * closing, 0.0)
    return _FILM * closing


def _runout(phase: float, mesh: Mesh) -> float:
    """Return what the eccentricities of both gears take from the approach."""
    driver = 2 * pi * phase / mesh.driver_flank.shape[0]
    driven = 2 * pi * (phase + mesh.mate) / mesh.driven_flank.shape[0]
    eccentric_driver, eccentric_driven = mesh.runout
    return eccentric_driver * sin(driver) + eccentric_driven * sin(driven)


def _friction(speed: float, dry: float, viscous: float) -> float:
    """Torque that opposes motion."""
    return dry * tanh(speed / STANDSTILL_SPEED) + viscous * speed


mesh_force: Callable[[float, float, float, Mesh], float] = njit(cache=True)(_mesh_force)
runout: Callable[[float, Mesh], float] = njit(cache=True)(_runout)
friction: Callable[[float, float, float], float] = njit(cache=True)(_friction)


def _integrate(speed: DoubleArray, brake: DoubleArray, train: DriveTrain) -> tuple[Fast, DoubleArray]:
    """Step the train through set speed (rad/s) and brake torque (Nm), one value a recorded sample.

    Velocities are advanced with the forces at the old positions, then positions
    with the new velocities (semi-implicit Euler): stable here because the step
    is a fifteenth of the shortest natural period, and it adds no damping.
    Returns four bearing forces and the key phase at every step, and the angle
    of the motor at every sample.
    """
    step = 1.0 / (SAMPLE_RATE * OVERSAMPLING)
    first, second = train.first, train.second
    spring = train.preload * _BEARING_SPRING
    fast = np.empty((5, speed.shape[0] * OVERSAMPLING), dtype=np.float32)
    motor_angle = np.empty(speed.shape[0])
    key_angle = 2 * pi * first.start / TEETH[0]
    # Motor, four gears, brake: turned by a at w. The gears: shifted by y at v. All start as if they had always turned.
    a, torque = np.zeros(6), np.zeros(6)
    middle, slow = speed[0] * TEETH[0] / TEETH[1], speed[0] / RATIO
    w = np.array([speed[0], speed[0], middle, middle, slow, slow])
    y, v, push, bearing = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)
    for sample in range(speed.shape[0]):
        motor_angle[sample] = a[0] + key_angle
        # A slipping motor: torque proportional to relative slip; at crawling speed the drive limits the gain.
        motor_gain = SLIP_STIFFNESS / max(abs(speed[sample]), 20.0)
        for at in range(sample * OVERSAMPLING, (sample + 1) * OVERSAMPLING):
            phase1 = first.start + a[1] * TEETH[0] / (2 * pi)
            approach = _R1 * a[1] - _R2 * a[2] + y[0] - y[1] - runout(phase1, first)
            force1 = mesh_force(approach, _R1 * w[1] - _R2 * w[2] + v[0] - v[1], phase1, first)
            phase2 = second.start + a[3] * TEETH[2] / (2 * pi)
            approach = _R3 * a[3] - _R4 * a[4] + y[2] - y[3] - runout(phase2, second)
            force2 = mesh_force(approach, _R3 * w[3] - _R4 * w[4] + v[2] - v[3], phase2, second)
            coupling = _TWIST_SPRING[0] * (a[0] - a[1]) + _TWIST_DAMPER[0] * (w[0] - w[1])
            shaft = _TWIST_SPRING[1] * (a[2] - a[3]) + _TWIST_DAMPER[1] * (w[2] - w[3])
            output = _TWIST_SPRING[2] * (a[4] - a[5]) + _TWIST_DAMPER[2] * (w[4] - w[5])
            bend = _BEND_SPRING * (y[1] - y[2])

            torque[0] = motor_gain * (speed[sample] - w[0]) - coupling
            torque[1] = coupling - _R1 * force1 - friction(w[1], _DRAG[0], _VISCOUS[0])
            torque[2] = _R2 * force1 - shaft - friction(w[2], _DRAG[1], _VISCOUS[1])
            torque[3] = shaft - _R3 * force2
            torque[4] = _R4 * force2 - output - friction(w[4], _DRAG[2], _VISCOUS[2])
            torque[5] = output - friction(w[5], brake[sample], 0.0)
            push[0], push[1], push[2], push[3] = -force1, force1 - bend, bend - force2, force2
            for body in range(6):
                w[body] += step * torque[body] / _INERTIA[body]
                a[body] += step * w[body]
            for gear in range(4):
                bearing[gear] = spring * y[gear] + _BEARING_DAMPER[gear] * v[gear]
                v[gear] += step * (push[gear] - bearing[gear]) / _MASS[gear]
                y[gear] += step * v[gear]
                fast[gear, at] = bearing[gear]
            turn = (a[0] + key_angle) / (2 * pi)
            fast[4, at] = 1.0 if turn - floor(turn) < train.key_duty else 0.0
    return fast, motor_angle


integrate_drive_train: Callable[[DoubleArray, DoubleArray, DriveTrain], tuple[Fast, DoubleArray]] = njit(cache=True)(
    _integrate
)


def run_drive_train(speed: DoubleArray, brake: DoubleArray, train: DriveTrain) -> GearboxMotion:
    """Run the drive train and hand back its motion, low-pass filtered and decimated to the recording rate."""
    fast, motor_angle = integrate_drive_train(speed, brake, train)
    slow = np.stack([decimate(row) for row in fast])
    return GearboxMotion(
        bearing_forces=slow[:4],
        motor_angle=motor_angle,
        motor_speed=np.gradient(motor_angle) * SAMPLE_RATE,
        key_phase=slow[4],
    )


def decimate(fast: Fast) -> DoubleArray:
    """Keep every ``OVERSAMPLING``-th sample of a signal after a linear-phase low pass without delay."""
    # Passes 5.7 kHz and stops at 7.1 kHz: what still folds lands where the recorder's own filter cuts.
    taps = sps.firwin(401, 6_400.0, window=("kaiser", 8.0), fs=SAMPLE_RATE * OVERSAMPLING)
    delay = len(taps) // 2
    padded = np.concatenate([np.full(delay, fast[0]), fast, np.full(delay, fast[-1])])
    wide = sps.upfirdn(taps.astype(np.float32), padded, down=OVERSAMPLING)
    # upfirdn starts before the first full overlap; the first output without lead-in is at 2 * delay.
    start = 2 * delay // OVERSAMPLING
    return wide[start : start + len(fast) // OVERSAMPLING].astype(np.float64)
