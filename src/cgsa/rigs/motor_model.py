"""Equations of motion of the simulated induction motor and its drive line.

Space vectors are complex numbers in the stationary frame, amplitudes are peak
values, and there is one pole pair, so that electrical and mechanical angles are
equal. ``docs/rig-motor.md`` gives the equations and the reasons for the values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cgsa.data.run import SAMPLE_RATE
from cgsa.rigs.base import DoubleArray
from cgsa.rigs.compilation import compile_function

ComplexArray = npt.NDArray[np.complex128]

OVERSAMPLING = 2
RATE = OVERSAMPLING * SAMPLE_RATE
"""Steps per second of the simulation, before low-pass filter and decimation to the recording rate."""

GEAR_RATIO = 95 / 29 * 90 / 36
"""Revolutions of the motor per revolution of the brake; the nominal torque is that of the brake."""
RATED_CURRENT = 4.7 * np.sqrt(2)
"""Peak phase current of a 2.2 kW, 380 V, two-pole motor at its nameplate load, in A."""
RATED_VOLTAGE = 380 * np.sqrt(2 / 3)
"""Peak phase voltage of the nameplate, in V."""

BALLS = 9
BALL_DIAMETER = 7.94e-3
PITCH_DIAMETER = 39.04e-3
CAGE_RATIO = (1 - BALL_DIAMETER / PITCH_DIAMETER) / 2
"""Revolutions of the cage per revolution of the shaft, for an SKF 6205 without contact angle."""
STRIKE_RATIO = PITCH_DIAMETER / BALL_DIAMETER * (1 - (BALL_DIAMETER / PITCH_DIAMETER) ** 2)
"""Impacts of one defect of a ball per revolution of the shaft: twice the ball spin, once on each race."""


class MotorParameters(NamedTuple):
    """The constants of the equations of motion, in SI units."""

    stator_resistance: float = 2.7
    rotor_resistance: float = 1.52
    stator_leakage: float = 0.011
    rotor_leakage: float = 0.011
    magnetising: float = 0.36
    gain_a: float = 1.0
    gain_b: float = 1.0
    gain_c: float = 1.0
    """Supply voltage of each phase over its nominal value."""
    series_a: float = 0.0
    """Resistance in the lead of phase A, in ohm."""
    fifth: float = 0.012
    seventh: float = 0.007
    """Harmonics of the inverter voltage over the fundamental."""
    carrier: float = 4000.0
    carrier_voltage: float = 60.0
    """Switching frequency of the inverter and peak voltage of its first side bands, in V."""
    static_eccentricity: complex = 0j
    """Offset of the rotor axis over the mean air gap, real part horizontal, fixed in space."""
    dynamic_eccentricity: complex = 0j
    """The same for the part that rotates with the rotor."""
    bars: int = 20
    slot_permeance: float = 0.02
    slot_load: float = 0.006
    """Share of magnetising and of rotor current that the rotor slots modulate."""
    rotor_inertia: float = 0.0045
    load_inertia: float = 0.006
    coupling_stiffness: float = 620.0
    coupling_damping: float = 0.25
    friction: float = 0.25
    """Dry friction of motor and gearbox at the motor shaft, in Nm."""
    drag: float = 0.0008
    """Friction that grows with speed, in Nm s."""
    first_mesh: float = 0.03
    second_mesh: float = 0.03
    """Ripple of the two gear meshes over the mean torque."""
    strike_torque: float = 0.0
    """Torque by which an impact of a damaged ball brakes the unloaded shaft, in Nm; it grows with the load."""


class DriveInputs(NamedTuple):
    """External inputs of the machine, one value per step."""

    frequency: DoubleArray
    """Supply frequency in Hz."""
    voltage: DoubleArray
    """Peak of the phase voltage in V."""
    load: DoubleArray
    """Torque at the brake in Nm."""
    ball_slip: DoubleArray
    """Relative slip of cage and balls."""
    ball_fade: DoubleArray
    """Strength of the contact of the defect with the races, from 0 to 1, since the spin axis of the ball varies."""


class Supply(NamedTuple):
    """Output of the inverter at one time."""

    angle: float
    """Angle of the voltage vector in rad."""
    carrier_angle: float
    """Phase of the switching in rad."""
    peak: float
    """Peak of the phase voltage in V."""


class MotorState(NamedTuple):
    """The dynamic states of the machine, or their derivatives."""

    flux: complex
    """Stator flux linkage in Wb."""
    rotor_flux: complex
    speed: float
    """Rotor speed in rad/s."""
    load_speed: float
    """Speed of the gearbox input and everything connected to it, in rad/s."""
    twist: float
    """Angle over the coupling in rad."""
    angle: float
    """Rotor angle in rad."""


class MotorMotion(NamedTuple):
    """Motion and currents of the machine, one value per step."""

    stator_current: ComplexArray
    rotor_current: ComplexArray
    flux: ComplexArray
    torque: DoubleArray
    """Electrical torque in Nm."""
    coupling_torque: DoubleArray
    speed: DoubleArray
    """Rotor speed in rad/s."""
    angle: DoubleArray
    """Rotor angle in rad, not wrapped."""
    cage: DoubleArray
    """Angle of the damaged ball around the shaft in rad."""
    strikes: DoubleArray
    """Strength of an impact of the damaged ball in the step where it occurs, otherwise 0."""


@compile_function
def friction_torque(m: MotorParameters, speed: float) -> float:
    """Return the friction at the motor shaft in Nm at ``speed`` in rad/s."""
    return float(m.friction * np.tanh(speed)) + m.drag * speed


@compile_function
def _terminal_voltage(m: MotorParameters, supply: Supply, current: complex) -> complex:
    """Return the voltage vector at the terminals: inverter and harmonics less the drop in each lead."""
    turn = np.exp(1j * supply.angle)
    back = turn.conjugate()
    back5 = back * back * back * back * back
    ideal = supply.peak * (turn + m.fifth * back5 + m.seventh * (back5 * back * back).conjugate())
    if supply.peak > 0:
        ideal += m.carrier_voltage * np.cos(supply.carrier_angle) * back * back
    root = np.sqrt(3.0)
    a = m.gain_a * ideal.real - m.series_a * current.real
    b = m.gain_b * (root * ideal.imag - ideal.real) / 2
    c = m.gain_c * (-root * ideal.imag - ideal.real) / 2
    return complex((2 * a - b - c) / 3, (b - c) / root)


@compile_function
def _currents(m: MotorParameters, flux: complex, rotor_flux: complex, angle: float) -> tuple[complex, complex]:
    """Return stator and rotor current, including the additional stator current due to an uneven air gap."""
    ls = m.stator_leakage + m.magnetising
    lr = m.rotor_leakage + m.magnetising
    det = ls * lr - m.magnetising * m.magnetising
    stator = (lr * flux - m.magnetising * rotor_flux) / det
    rotor = (ls * rotor_flux - m.magnetising * flux) / det

    # The fields around single slots grow with the load and cross the same gap.
    field = flux / m.magnetising + 0.5 * rotor
    slots = np.cos(m.bars * angle)
    fixed = m.static_eccentricity
    mixed = (fixed.conjugate() * m.dynamic_eccentricity * np.exp(1j * angle)).real
    extra = slots * (m.slot_permeance * flux / m.magnetising + m.slot_load * rotor)
    extra += field * mixed + field.conjugate() * fixed * fixed / 4
    extra += (m.slot_permeance + m.slot_load) * slots * fixed * abs(field)
    # Stator and rotor leakage are equal, so that the two windings share the additional current.
    return stator + extra / 2, rotor


@compile_function
def _electrical_torque(flux: complex, current: complex) -> float:
    return 1.5 * (flux.conjugate() * current).imag


@compile_function
def _coupling_torque(m: MotorParameters, s: MotorState) -> float:
    return m.coupling_stiffness * s.twist + m.coupling_damping * (s.speed - s.load_speed)


@compile_function
def _derivatives(m: MotorParameters, s: MotorState, supply: Supply, load: float, strike: float) -> MotorState:
    """Return the derivatives of the state."""
    stator, rotor = _currents(m, s.flux, s.rotor_flux, s.angle)
    voltage = _terminal_voltage(m, supply, stator)
    coupling = _coupling_torque(m, s)
    gear_angle = s.angle - s.twist
    ripple = m.first_mesh * np.cos(29 * gear_angle) + m.second_mesh * np.cos(36 * 29 / 95 * gear_angle)
    # A brake only opposes motion; tanh makes its sign change at standstill smooth, like that of dry friction.
    brake = load / GEAR_RATIO * (1 + ripple) * np.tanh(s.load_speed) + friction_torque(m, s.load_speed)
    return MotorState(
        flux=voltage - m.stator_resistance * stator,
        rotor_flux=-m.rotor_resistance * rotor + 1j * s.speed * s.rotor_flux,
        speed=(_electrical_torque(s.flux, stator) - coupling - strike * np.tanh(s.speed)) / m.rotor_inertia,
        load_speed=(coupling - brake) / m.load_inertia,
        twist=s.speed - s.load_speed,
        angle=s.speed,
    )


@compile_function
def _euler_step(s: MotorState, slope: MotorState, seconds: float) -> MotorState:
    return MotorState(
        s.flux + seconds * slope.flux,
        s.rotor_flux + seconds * slope.rotor_flux,
        s.speed + seconds * slope.speed,
        s.load_speed + seconds * slope.load_speed,
        s.twist + seconds * slope.twist,
        s.angle + seconds * slope.angle,
    )


@compile_function
def _integrate_motor(
    m: MotorParameters, drive: DriveInputs, s: MotorState, phases: DoubleArray
) -> tuple[ComplexArray, DoubleArray]:
    """Integrate by the midpoint rule, whose error at this rate is far below the sensor noise."""
    steps = drive.frequency.size
    dt = 1.0 / RATE
    vectors = np.empty((3, steps), np.complex128)
    scalars = np.zeros((6, steps))
    supply_angle, cage = 2 * np.pi * phases[1], 2 * np.pi * phases[2]
    spin = phases[3]
    strike = 0.0
    strike_decay = np.exp(-dt / 0.002)
    carrier_angle = 0.0
    carrier_step = 2 * np.pi * m.carrier * dt
    for k in range(steps):
        stator, rotor = _currents(m, s.flux, s.rotor_flux, s.angle)
        coupling = _coupling_torque(m, s)
        vectors[0, k] = stator
        vectors[1, k] = rotor
        vectors[2, k] = s.flux
        scalars[0, k] = _electrical_torque(s.flux, stator)
        scalars[1, k] = coupling
        scalars[2, k] = s.speed
        scalars[3, k] = s.angle
        scalars[4, k] = cage

        supply_step = 2 * np.pi * drive.frequency[k] * dt
        peak = drive.voltage[k]
        load = drive.load[k]
        now = Supply(supply_angle, carrier_angle, peak)
        soon = Supply(supply_angle + supply_step / 2, carrier_angle + carrier_step / 2, peak)
        middle = _euler_step(s, _derivatives(m, s, now, load, strike), dt / 2)
        s = _euler_step(s, _derivatives(m, middle, soon, load, strike), dt)
        supply_angle = (supply_angle + supply_step) % (2 * np.pi)
        carrier_angle = (carrier_angle + carrier_step) % (2 * np.pi)

        rolled = dt * s.speed * (1 + drive.ball_slip[k])
        cage += CAGE_RATIO * rolled
        spin += STRIKE_RATIO * rolled / (2 * np.pi)
        strike *= strike_decay
        if spin >= 1:
            spin -= 1
            # A little more than half of the bearing carries load; the ball passes its middle once per cage revolution.
            zone = max(0.0, 0.3 + 0.7 * np.cos(cage)) ** 1.5
            scalars[5, k] = drive.ball_fade[k] * zone
            strike += m.strike_torque * (1 + abs(coupling)) * scalars[5, k]
    return vectors, scalars


def integrate_motor(machine: MotorParameters, drive: DriveInputs, *, speed: float, phases: DoubleArray) -> MotorMotion:
    """Run the machine under the inputs ``drive``.

    ``speed`` is that of the rotor at the start in rad/s, and ``phases`` are the start angles of rotor, supply, cage and
    ball spin, in revolutions.
    """
    start = MotorState(0j, 0j, float(speed), float(speed), 0.0, 2 * np.pi * float(phases[0]))
    vectors, scalars = _integrate_motor(machine, drive, start, phases)
    return MotorMotion(*vectors, *scalars)
