"""Forces on the drive end of the simulated motor, and the housing that converts them into vibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.signal as sps

from cgsa.rigs.base import DoubleArray
from cgsa.rigs.motor_model import BALLS, RATE, RATED_CURRENT, ComplexArray, MotorMotion, MotorParameters
from cgsa.rigs.structure import Structure

PULL = 230.0
"""Magnetic pull in N for an eccentricity of one at a flux of 1 Wb."""
TORQUE_LOAD = 12.0
"""Radial bearing load per Nm of shaft torque, from coupling and gear reaction, in N."""
FOOT_ARM = 0.07
"""Half the distance between the motor's feet in m: converts reaction torque into force."""
REFERENCE_SPEED = 2000 * np.pi / 30
"""Speed in rad/s to which the forces of :class:`MechanicalParameters` refer."""


class MechanicalParameters(NamedTuple):
    """Properties of rotor, coupling and drive-end bearing that cause vibration."""

    unbalance: complex
    """Rotor unbalance in kg m."""
    misalignment: complex
    """Radial force of the coupling twice per revolution, unloaded, in N."""
    misalignment_load: float
    """Growth of that force per Nm of shaft torque, over its unloaded value."""
    axial_once: float
    axial_twice: float
    """Axial forces of the coupling once and twice per revolution, unloaded, in N."""
    preload: float
    """Bearing load without torque or magnetic pull, in N."""
    roughness: float
    """Noise force of the rolling contacts over the bearing load."""
    defect: float
    """Peak impact force of a damaged ball over the bearing load; 0 for a sound bearing."""


def drive_end_forces(
    machine: MotorParameters, mechanics: MechanicalParameters, motion: MotorMotion, rng: np.random.Generator
) -> DoubleArray:
    """Return the forces on the drive end, rows horizontal, vertical, axial and rocking, in N."""
    relative_speed = np.abs(motion.speed) / REFERENCE_SPEED
    phasor = np.exp(1j * motion.angle)
    ball = np.exp(1j * motion.cage)
    shaft = np.abs(motion.coupling_torque)
    pull = _magnetic_pull(machine, motion, phasor)
    coupling = relative_speed * (1 + mechanics.misalignment_load * shaft)
    radial = mechanics.unbalance * motion.speed**2 * phasor + mechanics.misalignment * coupling * phasor**2 + pull
    axial = mechanics.axial_once * phasor.real + mechanics.axial_twice * (phasor**2).real

    bearing_load = mechanics.preload + TORQUE_LOAD * shaft + np.hypot(*low_pass(np.stack([pull.real, pull.imag]), 5.0))
    contact = _contact_noise(motion, mechanics.roughness * bearing_load * relative_speed, rng)
    strike = mechanics.defect * _pulses(motion.strikes * bearing_load)
    mesh = shaft * (1.8 * np.cos(29 * motion.angle + 0.7) + 1.3 * np.cos(36 * 29 / 95 * motion.angle))
    return np.stack(
        [
            radial.real + contact[0] + strike * ball.imag + 0.5 * mesh,
            radial.imag + contact[1] + strike * ball.real + mesh,
            axial * coupling + contact[2] + 0.3 * strike + 0.8 * mesh,
            motion.torque / FOOT_ARM,
        ]
    )


def _magnetic_pull(machine: MotorParameters, motion: MotorMotion, phasor: ComplexArray) -> ComplexArray:
    """Return the unbalanced magnetic pull: towards the narrow gap, and rotating at twice the supply frequency."""
    slots = np.cos(machine.bars * motion.angle)
    offset = machine.static_eccentricity * (1 + machine.slot_permeance * slots)
    # The forces of single slots mostly cancel around the gap; about a quarter remains.
    offset = offset + machine.dynamic_eccentricity * phasor + 0.25 * machine.slot_permeance * slots
    # Leakage fields of the loaded rotor cross the gap too and double the pull at nameplate current.
    load = 1 + np.abs(motion.rotor_current) ** 2 / RATED_CURRENT**2
    pull: ComplexArray = PULL * load * (np.abs(motion.flux) ** 2 * offset + 0.5 * motion.flux**2 * offset.conj())
    return pull


def _contact_noise(motion: MotorMotion, level: DoubleArray, rng: np.random.Generator) -> DoubleArray:
    """Return the noise of rolling contacts on three axes, modulated by the passage of balls through the load zone."""
    white = rng.standard_normal((3, level.size))
    passing = 1 + 0.15 * np.cos(BALLS * motion.cage)
    film = 1 + 0.08 * ornstein_uhlenbeck(rng, level.size, 0.5)
    # Contact stiffness and lubricant film attenuate high frequencies; the axial part is smaller.
    noise: DoubleArray = low_pass(white * (level * passing * film), 4500.0) * np.array([[1.0], [1.0], [0.8]])
    return noise


def _pulses(strikes: DoubleArray) -> DoubleArray:
    """Return impacts as pulses of unit peak and about 0.2 ms, the time a ball of this size takes to cross an edge."""
    pulse = np.sin(np.pi * (np.arange(5) + 0.5) / 5)
    shaped: DoubleArray = sps.lfilter(pulse, [1.0], strikes)
    return shaped


def low_pass(traces: DoubleArray, cutoff: float) -> DoubleArray:
    """Return one trace, or rows of traces, after a settled first-order low-pass filter at ``cutoff`` in Hz."""
    keep = np.exp(-2 * np.pi * cutoff / RATE)
    smooth: DoubleArray = sps.lfilter([1 - keep], [1.0, -keep], traces, zi=keep * traces[..., :1])[0]
    return smooth


def ornstein_uhlenbeck(rng: np.random.Generator, steps: int, seconds: float) -> DoubleArray:
    """Return an Ornstein-Uhlenbeck process of unit variance and the given correlation time."""
    keep = np.exp(-1 / (seconds * RATE))
    innovation = np.sqrt(1 - keep**2) * rng.standard_normal(steps)
    walk: DoubleArray = sps.lfilter([1.0], [1.0, -keep], innovation, zi=[keep * rng.standard_normal()])[0]
    return walk


def motor_housing() -> Structure:
    """Return the nominal motor on its base: nine modes with horizontal, axial and vertical response."""
    modal_mass = np.array([28.0, 24, 18, 12, 10, 9, 8, 8, 7])
    at_sensor = np.array(
        [
            [0.9, 0.4, 0.4, -0.3, 0.4, 0.3, -0.4, 0.3, 0.3],
            [0.3, 0.7, 0.9, 1.0, -0.8, 0.9, 0.8, -0.9, 0.6],
            [0.5, 0.8, -0.7, 0.9, 0.9, 1.0, 1.1, 0.8, -0.7],
        ]
    ).T.copy()
    at_force = np.array(
        [
            [0.9, 0.5, 0.7, -0.6, 0.8, 0.5, -0.7, 0.6, 0.5],
            [0.5, 0.8, -0.6, 0.9, 0.8, 1.0, 1.0, 0.8, -0.8],
            [0.3, 0.6, 0.8, 0.9, -0.7, 0.8, 0.7, -0.8, 0.6],
            [0.6, 0.7, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1],
        ]
    ).T.copy()
    return Structure(
        frequencies=np.array([49.0, 128, 305, 640, 1120, 1760, 2480, 3350, 4650]),
        damping=np.array([0.06, 0.05, 0.04, 0.035, 0.03, 0.03, 0.025, 0.025, 0.03]),
        gains=at_sensor[:, :, None] * at_force[:, None, :] / modal_mass[:, None, None],
    )
