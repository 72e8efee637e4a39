"""Forces on the drive end of the simulated motor, and the housing that turns them into vibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.signal as sps

from cgsa.rigs.base import DoubleArray
from cgsa.rigs.motor_model import BALLS, RATE, RATED_CURRENT, ComplexArray, MotorMotion, MotorParameters
from cgsa.rigs.structure import Structure

PULL = 230.0
"""Magnetic pull in N for a rotor fully off centre at a flux of 1 Wb."""
TORQUE_LOAD = 12.0
"""Radial bearing load a Nm of shaft torque, from coupling and gear reaction, in N."""
FOOT_ARM = 0.07
"""Half the distance of the motor's feet in m: turns reaction torque into force."""
REFERENCE_SPEED = 2000 * np.pi / 30
"""Speed in rad/s at which the forces of :class:`MechanicalParameters` are told."""


class MechanicalParameters(NamedTuple):
    """State of rotor, coupling and drive-end bearing: what makes a sound or unsound motor vibrate."""

    unbalance: complex
    """Rotor unbalance in kg m."""
    misalignment: complex
    """Radial force of the coupling twice a turn, unloaded, in N."""
    misalignment_load: float
    """Growth of that force a Nm of shaft torque, over its unloaded value."""
    axial_once: float
    axial_twice: float
    """Axial forces of the coupling once and twice a turn, unloaded, in N."""
    preload: float
    """Bearing load without torque or magnetic pull, in N."""
    roughness: float
    """Noise force of the rolling contacts over the bearing load."""
    defect: float
    """Peak strike of a damaged ball over the bearing load; 0 for a sound bearing."""


def drive_end_forces(
    machine: MotorParameters, rotation: MechanicalParameters, motion: MotorMotion, rng: np.random.Generator
) -> DoubleArray:
    """Return the forces on the drive end, rows horizontal, vertical, axial and rocking, in N."""
    pace = np.abs(motion.speed) / REFERENCE_SPEED
    turn = np.exp(1j * motion.angle)
    ball = np.exp(1j * motion.cage)
    shaft = np.abs(motion.coupling_torque)
    pull = _magnetic_pull(machine, motion, turn)
    coupling = pace * (1 + rotation.misalignment_load * shaft)
    radial = rotation.unbalance * motion.speed**2 * turn + rotation.misalignment * coupling * turn**2 + pull
    push = rotation.axial_once * turn.real + rotation.axial_twice * (turn**2).real

    bearing_load = rotation.preload + TORQUE_LOAD * shaft + np.hypot(*low_pass(np.stack([pull.real, pull.imag]), 5.0))
    contact = _contact_noise(motion, rotation.roughness * bearing_load * pace, rng)
    strike = rotation.defect * _pulses(motion.strikes * bearing_load)
    mesh = shaft * (1.8 * np.cos(29 * motion.angle + 0.7) + 1.3 * np.cos(36 * 29 / 95 * motion.angle))
    return np.stack(
        [
            radial.real + contact[0] + strike * ball.imag + 0.5 * mesh,
            radial.imag + contact[1] + strike * ball.real + mesh,
            push * coupling + contact[2] + 0.3 * strike + 0.8 * mesh,
            motion.torque / FOOT_ARM,
        ]
    )


def _magnetic_pull(machine: MotorParameters, motion: MotorMotion, turn: ComplexArray) -> ComplexArray:
    """Return the unbalanced magnetic pull: toward the narrow gap, and around at twice the supply frequency."""
    slots = np.cos(machine.bars * motion.angle)
    offset = machine.static_eccentricity * (1 + machine.slot_permeance * slots)
    # Forces of single slots stand against each other around the gap; about a quarter is left over.
    offset = offset + machine.dynamic_eccentricity * turn + 0.25 * machine.slot_permeance * slots
    # Leakage fields of the loaded rotor cross the gap too: as much again at nameplate current.
    load = 1 + np.abs(motion.rotor_current) ** 2 / RATED_CURRENT**2
    pull: ComplexArray = PULL * load * (np.abs(motion.flux) ** 2 * offset + 0.5 * motion.flux**2 * offset.conj())
    return pull


def _contact_noise(motion: MotorMotion, level: DoubleArray, rng: np.random.Generator) -> DoubleArray:
    """Return the noise of rolling contacts on three axes, swelling a little as the balls pass the load zone."""
    white = rng.standard_normal((3, level.size))
    passing = 1 + 0.15 * np.cos(BALLS * motion.cage)
    film = 1 + 0.08 * ornstein_uhlenbeck(rng, level.size, 0.5)
    # Contact stiffness and lubricant film take away what is fast; less of it is axial.
    noise: DoubleArray = low_pass(white * (level * passing * film), 4500.0) * np.array([[1.0], [1.0], [0.8]])
    return noise


def _pulses(strikes: DoubleArray) -> DoubleArray:
    """Return strikes as pulses of unit peak that last about 0.2 ms, as a ball of this size takes over an edge."""
    pulse = np.sin(np.pi * (np.arange(5) + 0.5) / 5)
    shaped: DoubleArray = sps.lfilter(pulse, [1.0], strikes)
    return shaped


def low_pass(traces: DoubleArray, cutoff: float) -> DoubleArray:
    """Return one trace, or rows of them, through a filter of first order at ``cutoff`` in Hz, settled at the start."""
    keep = np.exp(-2 * np.pi * cutoff / RATE)
    smooth: DoubleArray = sps.lfilter([1 - keep], [1.0, -keep], traces, zi=keep * traces[..., :1])[0]
    return smooth


def ornstein_uhlenbeck(rng: np.random.Generator, steps: int, seconds: float) -> DoubleArray:
    """Return a random walk with a spring, of unit variance and the given memory."""
    keep = np.exp(-1 / (seconds * RATE))
    push = np.sqrt(1 - keep**2) * rng.standard_normal(steps)
    walk: DoubleArray = sps.lfilter([1.0], [1.0, -keep], push, zi=[keep * rng.standard_normal()])[0]
    return walk


def motor_housing() -> Structure:
    """Return the nominal motor on its base: nine modes, felt horizontally, axially and vertically."""
    modal_mass = np.array([28.0, 24, 18, 12, 10, 9, 8, 8, 7])
    felt = np.array(
        [
            [0.9, 0.3, 0.5],
            [0.4, 0.7, 0.8],
            [0.4, 0.9, -0.7],
            [-0.3, 1.0, 0.9],
            [0.4, -0.8, 0.9],
            [0.3, 0.9, 1.0],
            [-0.4, 0.8, 1.1],
            [0.3, -0.9, 0.8],
            [0.3, 0.6, -0.7],
        ]
    )
    driven = np.array(
        [
            [0.9, 0.5, 0.3, 0.6],
            [0.5, 0.8, 0.6, 0.7],
            [0.7, -0.6, 0.8, 0.5],
            [-0.6, 0.9, 0.9, 0.4],
            [0.8, 0.8, -0.7, 0.3],
            [0.5, 1.0, 0.8, 0.3],
            [-0.7, 1.0, 0.7, 0.2],
            [0.6, 0.8, -0.8, 0.2],
            [0.5, -0.8, 0.6, 0.1],
        ]
    )
    return Structure(
        frequencies=np.array([49.0, 128, 305, 640, 1120, 1760, 2480, 3350, 4650]),
        damping=np.array([0.06, 0.05, 0.04, 0.035, 0.03, 0.03, 0.025, 0.025, 0.03]),
        gains=felt[:, :, None] * driven[:, None, :] / modal_mass[:, None, None],
    )
