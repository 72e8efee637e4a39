"""Drive train of the gearbox rig: motor, two spur meshes, brake, shafts in their bearings.

Six rotations and four lateral motions along the lines of action, integrated
with a fixed step. Positive rotation is the working direction of each shaft, so
that a mesh is loaded when the driving gear leads the driven one.
"""

from __future__ import annotations

from math import floor, pi, sin, tanh
from typing import NamedTuple

import numpy as np
import scipy.signal as sps

from cgsa.data.recording import FloatArray
from cgsa.data.run import SAMPLE_RATE
from cgsa.rigs.base import DoubleArray
from cgsa.rigs.compilation import compile_function

OVERSAMPLING = 8
"""Steps per recorded sample: 102.4 kHz resolves the mesh resonances near 6 kHz."""

MODULE = 1.5e-3
PRESSURE_ANGLE = np.radians(20.0)
TEETH = (29, 95, 36, 90)
"""Input pinion, first gear, pinion of the second stage (which has the faults), output gear."""
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
_BEND_SPRING = 4.0e7  # the intermediate shaft connects its two gears
# Dry friction in Nm and viscous friction in Nm s/rad at input, intermediate and output shaft.
_DRAG = (0.15, 0.25, 0.80)
_VISCOUS = (4.0e-4, 1.0e-3, 2.0e-3)
STANDSTILL_SPEED = 0.5
"""Speed scale in rad/s of the sign change of dry friction and brake torque at standstill."""

SLIP_STIFFNESS = 190.0
"""Motor torque in Nm at a slip of one: 1.5 % slip at 3 Nm, as in the excerpt at 2959 rpm."""

TABLE_MARGIN = 0.5
"""Pitches by which the tables of a tooth pair extend beyond the regular path of contact."""
TABLE_STEP = 1 / 128
MESH_MASS = tuple(
    1 / (BASE_RADIUS[gear] ** 2 / _INERTIA[gear + 1] + BASE_RADIUS[gear + 1] ** 2 / _INERTIA[gear + 2])
    for gear in (0, 2)
)
"""Effective mass in kg of each mesh along its line of action."""
_CORNER = 6.0e-4  # m per squared pitch: separation of the flanks outside the regular path of contact
_FILM = 400.0  # N s/m of the oil film between separated flanks
_HERTZ = 2.0e-6  # m of approach at which a flank has half of its full stiffness
_CRACK_OPENING = 1.5e-6  # m of deflection at which a crack is half open


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
    """Missing material on each tooth of the driver along the path of contact, m, (teeth, positions)."""
    driven_flank: DoubleArray
    """The same for the driven gear; negative for excess material."""
    driver_scale: DoubleArray
    """Remaining share of the stiffness of each tooth of the driver."""
    driver_crack: DoubleArray
    """Share of its stiffness that each tooth of the driver loses while its crack is fully open."""
    runout: tuple[float, float]
    """Eccentricity of driver and driven gear along the line of action, m."""
    start: float = 0.0
    """Angle of the driver at the start of the run, in teeth."""
    mate: int = 0
    """Number of the driven tooth that first meshes with tooth 0 of the driver."""


class DriveTrain(NamedTuple):
    """The drive train of one specimen in one run."""

    first: Mesh
    second: Mesh
    preload: float
    """Bearing stiffness over its nominal value."""
    key_duty: float
    """Share of a revolution of the motor shaft during which the key-phase mark is at its sensor."""


class GearboxMotion(NamedTuple):
    """Motion and forces of the drive train at the recording rate."""

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
    """Return the relative stiffness of a tooth pair along the path of contact: lowest at contact with a tip."""
    across = 2 * path_of_contact(contact_ratio) / contact_ratio - 1
    return np.maximum(1 - 0.3 * across**2, 0.3)


def pair_relief(contact_ratio: float, relief: float, zone: float = 0.3) -> DoubleArray:
    """Return the gap between the flanks of a pair: quadratic ``relief`` over ``zone`` pitches, and corners beyond."""
    path = path_of_contact(contact_ratio)
    inside = np.minimum(path, contact_ratio - path)
    return relief * (np.clip(zone - inside, 0, None) / zone) ** 2 + _CORNER * np.clip(-inside, 0, None) ** 2


@compile_function
def _mesh_force(gap_closed: float, closing: float, phase: float, mesh: Mesh) -> float:
    """Return the force between two gears with the line-of-action approach ``gap_closed``, summed over tooth pairs."""
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
                # The contact area of the flanks grows with the load, so that a light contact is soft.
                pair *= deflection / (deflection + _HERTZ)
                elastic += pair * deflection
                stiffness += pair
    if stiffness > 0:
        return max(elastic + mesh.damping * stiffness / mesh.stiffness * closing, 0.0)
    back_flank = gap_closed + mesh.backlash
    if back_flank < 0:
        return min(mesh.stiffness * back_flank + mesh.damping * closing, 0.0)
    return _FILM * closing


@compile_function
def _runout(phase: float, mesh: Mesh) -> float:
    """Return the reduction of the approach by the eccentricities of both gears."""
    driver = 2 * pi * phase / mesh.driver_flank.shape[0]
    driven = 2 * pi * (phase + mesh.mate) / mesh.driven_flank.shape[0]
    eccentric_driver, eccentric_driven = mesh.runout
    return eccentric_driver * sin(driver) + eccentric_driven * sin(driven)


@compile_function
def _friction(speed: float, dry: float, viscous: float) -> float:
    """Return the torque that opposes motion."""
    return dry * tanh(speed / STANDSTILL_SPEED) + viscous * speed


@compile_function
def integrate_drive_train(speed: DoubleArray, brake: DoubleArray, train: DriveTrain) -> tuple[FloatArray, DoubleArray]:
    """Integrate the train under set speed (rad/s) and brake torque (Nm), one value per recorded sample.

    Forces at the old positions update the velocities, which then update the
    positions (semi-implicit Euler): stable here because the step is a fifteenth
    of the shortest natural period, and free of numerical damping. Returns four
    bearing forces and the key phase at every step, and the angle of the motor at
    every sample.
    """
    step = 1.0 / (SAMPLE_RATE * OVERSAMPLING)
    first, second = train.first, train.second
    spring = train.preload * _BEARING_SPRING
    fast = np.empty((5, speed.shape[0] * OVERSAMPLING), dtype=np.float32)
    motor_angle = np.empty(speed.shape[0])
    key_angle = 2 * pi * first.start / TEETH[0]
    # Angles a and speeds w of motor, four gears and brake; displacements y and velocities v of the gears. The start is
    # that of a steady rotation.
    a, torque = np.zeros(6), np.zeros(6)
    middle, slow = speed[0] * TEETH[0] / TEETH[1], speed[0] / RATIO
    w = np.array([speed[0], speed[0], middle, middle, slow, slow])
    y, v, push, bearing = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)
    for sample in range(speed.shape[0]):
        motor_angle[sample] = a[0] + key_angle
        # Torque is proportional to relative slip; at low speed the drive limits the gain.
        motor_gain = SLIP_STIFFNESS / max(abs(speed[sample]), 20.0)
        for at in range(sample * OVERSAMPLING, (sample + 1) * OVERSAMPLING):
            phase1 = first.start + a[1] * TEETH[0] / (2 * pi)
            approach = _R1 * a[1] - _R2 * a[2] + y[0] - y[1] - _runout(phase1, first)
            force1 = _mesh_force(approach, _R1 * w[1] - _R2 * w[2] + v[0] - v[1], phase1, first)
            phase2 = second.start + a[3] * TEETH[2] / (2 * pi)
            approach = _R3 * a[3] - _R4 * a[4] + y[2] - y[3] - _runout(phase2, second)
            force2 = _mesh_force(approach, _R3 * w[3] - _R4 * w[4] + v[2] - v[3], phase2, second)
            coupling = _TWIST_SPRING[0] * (a[0] - a[1]) + _TWIST_DAMPER[0] * (w[0] - w[1])
            shaft = _TWIST_SPRING[1] * (a[2] - a[3]) + _TWIST_DAMPER[1] * (w[2] - w[3])
            output = _TWIST_SPRING[2] * (a[4] - a[5]) + _TWIST_DAMPER[2] * (w[4] - w[5])
            bend = _BEND_SPRING * (y[1] - y[2])

            torque[0] = motor_gain * (speed[sample] - w[0]) - coupling
            torque[1] = coupling - _R1 * force1 - _friction(w[1], _DRAG[0], _VISCOUS[0])
            torque[2] = _R2 * force1 - shaft - _friction(w[2], _DRAG[1], _VISCOUS[1])
            torque[3] = shaft - _R3 * force2
            torque[4] = _R4 * force2 - output - _friction(w[4], _DRAG[2], _VISCOUS[2])
            torque[5] = output - _friction(w[5], brake[sample], 0.0)
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


def run_drive_train(speed: DoubleArray, brake: DoubleArray, train: DriveTrain) -> GearboxMotion:
    """Run the drive train and return its motion, low-pass filtered and decimated to the recording rate."""
    fast, motor_angle = integrate_drive_train(speed, brake, train)
    slow = np.stack([decimate(row) for row in fast])
    motor_speed = np.gradient(motor_angle) * SAMPLE_RATE
    return GearboxMotion(slow[:4], motor_angle, motor_speed, key_phase=slow[4])


def decimate(fast: FloatArray) -> DoubleArray:
    """Keep every ``OVERSAMPLING``-th sample of a signal after a linear-phase low pass without delay."""
    # Passes 5.7 kHz and stops 7.1 kHz: the remaining aliases are in the stop band of the recorder's own filter.
    taps = sps.firwin(401, 6_400.0, window=("kaiser", 8.0), fs=SAMPLE_RATE * OVERSAMPLING)
    delay = len(taps) // 2
    padded = np.concatenate([np.full(delay, fast[0]), fast, np.full(delay, fast[-1])])
    wide = sps.upfirdn(taps.astype(np.float32), padded, down=OVERSAMPLING)
    # upfirdn starts before the first full overlap, which is at 2 * delay.
    start = 2 * delay // OVERSAMPLING
    return wide[start : start + len(fast) // OVERSAMPLING].astype(np.float64)
