"""A simulated induction-motor rig like that of the MCC5-THU motor data set.

:mod:`cgsa.rigs.motor_model` has the physics of machine and drive line, and
:mod:`cgsa.rigs.motor_forces` that of the vibration. This module has the assembly
of a specimen with its fault, the programme of a run and the data acquisition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.signal as sps

from cgsa.data.mcc5.files import file_name
from cgsa.data.mcc5.recordings import MOTOR_FACTOR, TORQUE_FACTOR, motor_recording
from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE, Run, Severity
from cgsa.rigs.base import DoubleArray, checked_severity, run_generator, set_curve, set_torque, specimen_generator
from cgsa.rigs.motor_forces import MechanicalParameters, drive_end_forces, low_pass, motor_housing, ornstein_uhlenbeck
from cgsa.rigs.motor_model import (
    GEAR_RATIO,
    OVERSAMPLING,
    RATE,
    RATED_CURRENT,
    RATED_VOLTAGE,
    DriveInputs,
    MotorMotion,
    MotorParameters,
    integrate_motor,
)
from cgsa.rigs.structure import Structure

STATES = ("health", "voltage_unbalance", "static_eccentricity", "bearing_ball")
SECONDS = 90.0
SETTLING = 1.5
"""Seconds until the initial transient has decayed; they are removed."""
GRAVITY = 9.80665
FILTER_DELAY = 16
"""Delay of the symmetric anti-alias filter in samples; it is compensated."""

COMMAND = 1.0057
"""Synchronous over nominal speed: idling motors of the data set rotate at 1003 and 3008 rpm."""
BOOST = 36.0
"""Peak phase voltage of the inverter at standstill, in V."""
VOLTAGE_LIMIT = 252.0
"""Highest peak phase voltage: a sine from the 513 V that 380 V mains provide ends a little below half of that."""

VOLTAGE_DROP: Mapping[Severity, float] = {"L": 0.02, "M": 0.04, "H": 0.07}
"""Share by which the voltage of phase A is too low."""
ECCENTRICITY: Mapping[Severity, float] = {"L": 0.15, "M": 0.3, "H": 0.45}
"""Offset of the rotor axis over the mean air gap."""
BALL_DAMAGE: Mapping[Severity, float] = {"L": 0.3, "M": 0.6, "H": 1.0}
"""Size of the defect on the ball over the largest one."""


@dataclass(frozen=True, eq=False)
class MotorSpecimen:
    """One assembly of the rig, which is the same in all its runs."""

    machine: MotorParameters
    mechanics: MechanicalParameters
    structure: Structure
    mounting: DoubleArray
    """Gains and cross talk from true horizontal, axial and vertical to the sensor axes x, y and z."""


class MotorRig:
    """A 2.2 kW two-pole motor on an inverter, which drives a brake through a two-stage gearbox."""

    name: ClassVar[str] = "motor"
    states: ClassVar[tuple[str, ...]] = STATES

    def simulate(
        self, state: str, run: Run, *, severity: Severity = "H", specimen: int = 1, seed: int = 0
    ) -> Recording:
        """Return one run of 90 s as recorded by the rig's data acquisition."""
        severity = checked_severity(MotorRig, state, severity)
        speed, load = motor_programme(run)
        rng = run_generator(self.name, state, severity, specimen, run=run, seed=seed)
        columns = _record(assemble_motor(state, severity, specimen), _drive_inputs(speed, load, rng), 0.0, rng)
        name = file_name("motor", state, severity, run)
        return _recording(columns, name, f"rig:motor/specimen_{specimen}/{name}?seed={seed}")

    def drive(
        self,
        state: str,
        *,
        torque: float | Mapping[float, float],
        speed: float,
        seconds: float,
        severity: Severity = "H",
        specimen: int = 1,
        seed: int = 0,
        same_assembly: bool = False,
    ) -> Recording:
        """Return a recording of the settled machine at nominal speed (rpm) and brake torque (Nm, or a curve of it)."""
        severity = checked_severity(MotorRig, state, severity)
        load = set_torque(torque, seconds, SETTLING)
        run = Run("torque", round(load[0]), round(speed))
        rng = run_generator(self.name, state, severity, specimen, run=run, seed=seed)
        inputs = _drive_inputs(np.full(load.size, float(speed)), load, rng)
        assembled = assemble_motor(state, severity, specimen, same_assembly=same_assembly)
        columns = _record(assembled, inputs, 0.98 * speed * np.pi / 30, rng)
        kept = [column[load.size - round(seconds * SAMPLE_RATE) :] for column in columns]
        name = file_name("motor", state, severity, run)
        return _recording(kept, name, f"rig:motor/specimen_{specimen}/{name}?seed={seed}&drive={seconds:g}s")


def motor_programme(run: Run) -> tuple[DoubleArray, DoubleArray]:
    """Return the set curves of a run at the recording rate: nominal speed in rpm and brake torque in Nm."""
    torque, speed = float(run.torque), float(run.speed)
    if run.kind == "torque":
        speeds = {1.0: 0.0, 3.0: speed, 88.0: speed, 89.5: 0.0}
        part = 0.75 * torque
        loads = {5.0: 0.0, 11.0: torque, 32.0: torque, 37.0: part, 57.0: part, 61.0: torque, 81.0: torque, 88.0: 0.0}
    else:
        low = speed - 500.0
        speeds = {1.0: 0.0, 9.0: speed, 29.0: speed, 34.0: low, 54.0: low, 59.0: speed, 79.0: speed, 88.0: 0.0}
        loads = {1.0: 0.0, 3.0: torque, 84.0: torque, 87.0: 0.0}
    return set_curve(speeds, SECONDS), set_curve(loads, SECONDS)


def assemble_motor(state: str, severity: Severity, specimen: int, *, same_assembly: bool = False) -> MotorSpecimen:
    """Return a specimen: first the spread of reassembly, which is the same for all states, then the fault.

    With ``same_assembly`` the spread is that of the healthy specimen of this number.
    """
    assembly: tuple[str, Severity] = (STATES[0], "H") if same_assembly else (state, severity)
    rng = specimen_generator(MotorRig.name, *assembly, specimen)
    gains = 1 + 0.002 * rng.standard_normal(3)
    machine = MotorParameters(
        gain_a=gains[0],
        gain_b=gains[1],
        gain_c=gains[2],
        static_eccentricity=0.06 * _random_phasor(rng, 0.3),
        dynamic_eccentricity=0.05 * _random_phasor(rng, 0.3),
        slot_permeance=0.02 * _log_normal_factor(rng, 0.1),
        coupling_stiffness=620 * _log_normal_factor(rng, 0.05),
        friction=0.25 * _log_normal_factor(rng, 0.1),
        first_mesh=0.03 * _log_normal_factor(rng, 0.2),
        second_mesh=0.03 * _log_normal_factor(rng, 0.2),
    )
    mechanics = MechanicalParameters(
        unbalance=4.8e-5 * _random_phasor(rng, 0.35),
        misalignment=6.0 * _random_phasor(rng, 0.35),
        misalignment_load=0.15 * _log_normal_factor(rng, 0.2),
        axial_once=4.0 * _log_normal_factor(rng, 0.35),
        axial_twice=3.0 * _log_normal_factor(rng, 0.35),
        preload=80 * _log_normal_factor(rng, 0.15),
        roughness=0.062 * _log_normal_factor(rng, 0.12),
        defect=0.0,
    )
    structure = motor_housing().reassembled(rng, shift=0.015, spread=0.15)
    mounting = np.diag(1 + 0.05 * rng.standard_normal(3)) + 0.03 * rng.standard_normal((3, 3))
    return _with_motor_fault(MotorSpecimen(machine, mechanics, structure, mounting), state, severity, rng)


def _with_motor_fault(
    healthy: MotorSpecimen, state: str, severity: Severity, rng: np.random.Generator
) -> MotorSpecimen:
    machine, mechanics = healthy.machine, healthy.mechanics
    if state == "voltage_unbalance":
        drop = VOLTAGE_DROP[severity]
        # The cause of the drop is not an ideal transformer: part of it grows with the current.
        series = 0.3 * drop * RATED_VOLTAGE / RATED_CURRENT
        machine = machine._replace(gain_a=machine.gain_a * (1 - drop), series_a=series)
    elif state == "static_eccentricity":
        offset = ECCENTRICITY[severity] * np.exp(1j * (0.6 + 0.15 * rng.standard_normal()))
        machine = machine._replace(static_eccentricity=machine.static_eccentricity + offset)
    elif state == "bearing_ball":
        size = BALL_DAMAGE[severity] * _log_normal_factor(rng, 0.1)
        machine = machine._replace(strike_torque=0.01 * size, friction=machine.friction * (1 + 0.1 * size))
        # Particles from the ball have damaged the races, so that the contact noise grows, too.
        mechanics = mechanics._replace(defect=0.83 * size, roughness=mechanics.roughness * (1 + 0.3 * size))
    return replace(healthy, machine=machine, mechanics=mechanics)


def _drive_inputs(speed: DoubleArray, load: DoubleArray, rng: np.random.Generator) -> DriveInputs:
    """Return the inputs from inverter, brake and lubricant for the given set curves."""
    frequency = np.repeat(speed, OVERSAMPLING) * (COMMAND / 60)
    steps = frequency.size
    drift = 1 + 0.007 * rng.standard_normal() + 0.003 * ornstein_uhlenbeck(rng, steps, 3.0)
    level = 1 + 0.015 * rng.standard_normal()
    return DriveInputs(
        frequency=frequency,
        voltage=inverter_voltage(frequency) * drift,
        load=low_pass(np.repeat(load, OVERSAMPLING) * level, 1 / (2 * np.pi)),
        ball_slip=-0.005 * rng.random() + 0.012 * ornstein_uhlenbeck(rng, steps, 0.05),
        ball_fade=np.maximum(0.0, 1 - ornstein_uhlenbeck(rng, steps, 0.15) ** 2),
    )


def inverter_voltage(frequency: DoubleArray) -> DoubleArray:
    """Return the peak phase voltage for each supply frequency in Hz: linear above a boost, up to a limit."""
    voltage = np.minimum(BOOST + (RATED_VOLTAGE - BOOST) / 50 * frequency, VOLTAGE_LIMIT)
    # Below the start frequency of the drive the inverter is off.
    return np.where(frequency < 0.3, 0.0, voltage)


def _record(specimen: MotorSpecimen, drive: DriveInputs, speed: float, rng: np.random.Generator) -> list[DoubleArray]:
    """Run the machine and return the raw columns of its file, except the time."""
    structure = specimen.structure.with_remounted_sensors(rng)
    resistance_factors = 1 + 0.03 * rng.standard_normal(2)
    machine = specimen.machine._replace(
        stator_resistance=specimen.machine.stator_resistance * resistance_factors[0],
        rotor_resistance=specimen.machine.rotor_resistance * resistance_factors[1],
    )
    motion = integrate_motor(machine, drive, speed=speed, phases=rng.random(4))
    acceleration = structure.respond(drive_end_forces(machine, specimen.mechanics, motion, rng), RATE)
    vibration = specimen.mounting @ _decimate_rows(acceleration) / GRAVITY
    samples = vibration.shape[1]
    output_runout = np.sin(motion.angle[::OVERSAMPLING] / GEAR_RATIO)
    torque = drive.load[::OVERSAMPLING] * (1 + 0.006 * output_runout)
    torque = torque + 0.2 * rng.standard_normal(samples)
    key_phase = _key_phase(motion) + 0.01 * rng.standard_normal(samples)
    vibration += 0.005 * rng.standard_normal(vibration.shape)
    currents = _phase_currents(motion)
    currents += 0.01 * rng.standard_normal(currents.shape)
    # Rounded below the noise, so that a CSV file restores the recording exactly.
    return [
        np.round(key_phase, 4),
        np.round(torque / TORQUE_FACTOR, 5),
        *np.round(vibration / MOTOR_FACTOR, 4),
        *np.round(currents / MOTOR_FACTOR, 4),
    ]


def _recording(columns: list[DoubleArray], name: str, source: str) -> Recording:
    time = np.round(np.arange(columns[0].size) / SAMPLE_RATE, 9)
    return motor_recording([time, *columns], name=f"{name}.csv", source=source)


def _phase_currents(motion: MotorMotion) -> DoubleArray:
    """Return the currents measured by the clamps, whose 3 kHz bandwidth passes some of the switching ripple."""
    vector = motion.stator_current
    third = np.exp(2j * np.pi / 3)
    # Reversed phase order, as on the real rig: C follows A and B follows C.
    phases = np.stack([vector.real, (vector * third).real, (vector * third.conjugate()).real])
    return _decimate_rows(low_pass(phases, 3000.0))


def _key_phase(motion: MotorMotion) -> DoubleArray:
    """Return the key phase: 3.67 V over a ninth of a revolution, with the overshoot of the anti-alias filter."""
    share = (motion.angle / (2 * np.pi)) % 1.0
    pulse: DoubleArray = _decimate_rows(np.where(share < 0.115, 3.67, 0.0035)[None])[0]
    return pulse


def _decimate_rows(signals: DoubleArray) -> DoubleArray:
    """Return the rows at the recording rate, after an anti-alias filter."""
    taps = sps.firwin(2 * OVERSAMPLING * FILTER_DELAY + 1, 0.45 * SAMPLE_RATE, fs=RATE)
    filtered: DoubleArray = sps.upfirdn(taps, signals, 1, OVERSAMPLING, axis=1)
    return filtered[:, FILTER_DELAY : FILTER_DELAY + signals.shape[1] // OVERSAMPLING]


def _log_normal_factor(rng: np.random.Generator, relative: float) -> float:
    """Return a positive factor around 1."""
    return float(np.exp(relative * rng.standard_normal()))


def _random_phasor(rng: np.random.Generator, relative: float) -> complex:
    """Return a complex factor of magnitude around 1 and random phase."""
    return complex(_log_normal_factor(rng, relative) * np.exp(2j * np.pi * rng.random()))
