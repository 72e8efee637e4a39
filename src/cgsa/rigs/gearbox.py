"""A simulated two-stage parallel gearbox like the one of the MCC5-THU data set.

:mod:`cgsa.rigs.gearbox_model` has the drive train, and
:mod:`cgsa.rigs.gearbox_parts` has specimens and faults. This module runs the rig
and records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import scipy.signal as sps

from cgsa.data.mcc5.files import file_name
from cgsa.data.mcc5.recordings import TORQUE_FACTOR, gearbox_recording
from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE, Run, Severity
from cgsa.errors import ConfigError
from cgsa.rigs import gearbox_model as model
from cgsa.rigs.base import DoubleArray, checked_severity, run_generator, set_curve, set_torque, specimen_generator
from cgsa.rigs.gearbox_parts import FAULTS, GearboxSpecimen, assemble_gearbox

SECONDS = 60
_TORQUE_STEP = 5  # Nm below the nominal level in the middle of a torque run
_SPEED_STEP = 500  # rpm below the nominal speed in the middle of a speed run
_MAX_TORQUE, _MAX_SPEED = 25, 3000

_BRAKE_DEAD_TIME = 0.7  # s
_BRAKE_LAG = 0.3  # s
_SETTLING = 0.6  # s before the recording starts

_NO_LOAD_SPEED = 1.002  # over nominal speed: the set point of the drive is a little high
_RATED_SPEED = 2 * np.pi * 50.0  # rad/s
_ROUGHNESS = 3.0  # N of random force on each bearing at rated speed without load
_LOAD_ROUGHNESS = 0.04  # random force over bearing force at rated speed
_HUM = 1.5  # N of magnetic pull at twice the stator frequency
_GRAVITY = 9.81

_KEY_LOW, _KEY_HIGH, _KEY_DUTY = 0.003, 3.62, 0.11
_KEY_NOISE = 0.0025  # V
_TORQUE_NOISE = 0.03  # Nm
_VIBRATION_NOISE = 0.006  # g
_DECIMALS = 5
_DECIMAL_SCALE = 10**_DECIMALS


class GearboxRig:
    """Motor, gearbox with 29/95 and 36/90 teeth, and brake; the 36-tooth gear has the faults."""

    name: ClassVar[str] = "gearbox"
    states: ClassVar[tuple[str, ...]] = tuple(FAULTS)

    def simulate(
        self, state: str, run: Run, *, severity: Severity = "H", specimen: int = 1, seed: int = 0
    ) -> Recording:
        """Return one run of 60 s as recorded by the rig's data acquisition."""
        severity = checked_severity(GearboxRig, state, severity)
        _check_run(run)
        speed, torque = gearbox_programme(run)
        rng = run_generator(self.name, state, severity, specimen, run=run, seed=seed)
        # Flanks and bearings settle before the recording starts.
        settling = round(_SETTLING * SAMPLE_RATE)
        speed, brake = np.pad(speed, (settling, 0)), np.pad(brake_torque(torque), (settling, 0))
        columns = [
            column[settling:] for column in record_gearbox(self._specimen(state, severity, specimen), speed, brake, rng)
        ]
        name = file_name("gearbox", state, severity, run)
        return gearbox_recording(
            columns, name=f"{name}.csv", source=f"rig:{self.name}/specimen_{specimen}/{name}?seed={seed}"
        )

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
        """Return a recording of the settled machine at set speed (rpm) and torque (Nm, or a curve of it)."""
        severity = checked_severity(GearboxRig, state, severity)
        brake = brake_torque(set_torque(torque, seconds, _SETTLING))
        run = Run("torque", round(brake[0]), round(speed))
        rng = run_generator(self.name, state, severity, specimen, run=run, seed=seed)
        assembled = self._specimen(state, severity, specimen, same_assembly=same_assembly)
        columns = record_gearbox(assembled, np.full(brake.size, float(speed)), brake, rng)
        name = file_name("gearbox", state, severity, run)
        return gearbox_recording(
            [column[round(_SETTLING * SAMPLE_RATE) :] for column in columns],
            name=f"{name}.csv",
            source=f"rig:{self.name}/specimen_{specimen}/drive_{state}_{severity}_{speed:g}rpm_{brake[0]:g}Nm"
            f"_{seconds:g}s?seed={seed}",
        )

    def _specimen(
        self, state: str, severity: Severity, specimen: int, *, same_assembly: bool = False
    ) -> GearboxSpecimen:
        assembly: tuple[str, Severity] = (self.states[0], "H") if same_assembly else (state, severity)
        return assemble_gearbox(state, severity, specimen_generator(self.name, *assembly, specimen))


def gearbox_programme(run: Run) -> tuple[DoubleArray, DoubleArray]:
    """Return the set curves of speed (rpm) and torque (Nm) over the 60 s of a run."""
    # The set level lasts half a second longer than nominal, so that the lagging torque stays there for 10 s.
    high = float(run.torque if run.kind == "torque" else run.speed)
    low = high - (_TORQUE_STEP if run.kind == "torque" else _SPEED_STEP)
    circulation: dict[float, float] = {5: 0.0, 10: high, 20.5: high, 25: low, 35.5: low, 40: high, 50.5: high, 55: 0.0}
    if run.kind == "torque":
        speed: dict[float, float] = {1: 0.0, 5: float(run.speed), 55: float(run.speed), 59: 0.0}
        return set_curve(speed, SECONDS), set_curve(circulation, SECONDS)
    torque: dict[float, float] = {5: 0.0, 7: float(run.torque), 52: float(run.torque), 54: 0.0}
    return set_curve(circulation, SECONDS), set_curve(torque, SECONDS)


def brake_torque(set_torque: DoubleArray) -> DoubleArray:
    """Return the torque of the brake: the set torque after a dead time and a first-order lag."""
    dead = round(_BRAKE_DEAD_TIME * SAMPLE_RATE)
    delayed = np.concatenate([np.full(dead, set_torque[0]), set_torque[:-dead]])
    keep = np.exp(-1 / (_BRAKE_LAG * SAMPLE_RATE))
    state = sps.lfiltic([1 - keep], [1, -keep], y=[delayed[0]])
    lagged, _ = sps.lfilter([1 - keep], [1, -keep], delayed, zi=state)
    return np.asarray(lagged)


def _check_run(run: Run) -> None:
    min_torque = _TORQUE_STEP if run.kind == "torque" else 0
    min_speed = _SPEED_STEP if run.kind == "speed" else 100
    if not (min_torque <= run.torque <= _MAX_TORQUE and min_speed <= run.speed <= _MAX_SPEED):
        raise ConfigError(
            f"the gearbox rig cannot run {run.name}; a {run.kind} run has {min_torque} to {_MAX_TORQUE} Nm "
            f"and {min_speed} to {_MAX_SPEED} rpm"
        )


def record_gearbox(
    specimen: GearboxSpecimen, speed: DoubleArray, brake: DoubleArray, rng: np.random.Generator
) -> list[DoubleArray]:
    """Drive the specimen at set speed (rpm) against brake torque (Nm); return the eight raw columns of the file."""
    structure = specimen.structure.with_remounted_sensors(rng)
    meshes = _with_random_start(specimen, rng)
    # Oil temperature and drive frequency vary from run to run.
    viscosity = rng.normal(1, 0.03)
    drive_speed = _NO_LOAD_SPEED * rng.normal(1, 0.0005) * speed * np.pi / 30
    first, second = (mesh._replace(damping=mesh.damping * viscosity) for mesh in meshes)
    train = model.DriveTrain(first, second, preload=specimen.preload, key_duty=_KEY_DUTY)
    motion = model.run_drive_train(drive_speed, brake, train)
    bearing_forces = motion.bearing_forces + _roughness(motion, specimen, rng)
    forces = np.vstack([bearing_forces, _motor_forces(motion, drive_speed, brake, specimen, rng)])
    vibration = structure.respond(forces - forces[:, :1], SAMPLE_RATE) / _GRAVITY
    vibration += _VIBRATION_NOISE * rng.standard_normal(vibration.shape)
    key_phase = _KEY_LOW + (_KEY_HIGH - _KEY_LOW) * motion.key_phase
    key_phase += _KEY_NOISE * rng.standard_normal(key_phase.shape)
    # A brake opposes motion only: at standstill its torque is zero.
    torque = brake * np.tanh(motion.motor_speed / model.RATIO / model.STANDSTILL_SPEED)
    torque += _TORQUE_NOISE * rng.standard_normal(torque.shape)
    analogue = _anti_alias(np.vstack([key_phase, torque / TORQUE_FACTOR, vibration]))
    # An integer over a power of ten is exactly the double that its decimal text parses to.
    return list(np.rint(analogue * _DECIMAL_SCALE) / _DECIMAL_SCALE)


def _with_random_start(specimen: GearboxSpecimen, rng: np.random.Generator) -> tuple[model.Mesh, model.Mesh]:
    """Return both meshes with random start angles of the shafts."""
    start = rng.uniform(0, model.TEETH[0])
    mate = int(rng.integers(model.TEETH[1]))
    intermediate_turn = (start + mate) / model.TEETH[1]
    return (
        specimen.first._replace(start=start, mate=mate),
        specimen.second._replace(start=intermediate_turn % 1 * model.TEETH[2], mate=int(rng.integers(model.TEETH[3]))),
    )


def _roughness(motion: model.GearboxMotion, specimen: GearboxSpecimen, rng: np.random.Generator) -> DoubleArray:
    """Return the random forces of bearings and sliding flanks, which grow with load and speed."""
    size = _ROUGHNESS + _LOAD_ROUGHNESS * np.abs(motion.bearing_forces)
    size *= specimen.roughness[:, None] * np.abs(motion.motor_speed) / _RATED_SPEED
    return np.asarray(size * rng.standard_normal(size.shape))


def _motor_forces(
    motion: model.GearboxMotion,
    drive_speed: DoubleArray,
    brake: DoubleArray,
    specimen: GearboxSpecimen,
    rng: np.random.Generator,
) -> DoubleArray:
    """Return the horizontal, vertical and axial force at the motor, (3, samples)."""
    motor_speed = motion.motor_speed
    load = 1 + brake / 20
    rotation = motion.motor_angle + specimen.angles[0]
    unbalance = specimen.unbalance * motor_speed**2
    twice = 2 * motion.motor_angle + specimen.angles[1]
    misaligned = specimen.misalignment * load * np.clip(motor_speed / 10, 0, 1)
    # The stator field of the two-pole motor rotates at the drive's speed, and pulls twice per revolution.
    field = 2 * np.cumsum(drive_speed) / SAMPLE_RATE + rng.uniform(0, 2 * np.pi)
    hum = _HUM * load * np.clip(drive_speed / 10, 0, 1) * np.cos(field)
    rough = _ROUGHNESS * np.abs(motor_speed) / _RATED_SPEED * rng.standard_normal((3, motor_speed.size))
    horizontal = unbalance * np.cos(rotation) + misaligned * np.cos(twice)
    vertical = unbalance * np.sin(rotation) + misaligned * np.sin(twice) + hum
    return np.asarray(rough + np.stack([horizontal, vertical, 0.5 * misaligned * np.sin(twice)]))


def _anti_alias(analogue: DoubleArray) -> DoubleArray:
    """Return the signals after the recorder's filter, which passes 5.6 kHz and stops 6.2 kHz."""
    taps = sps.firwin(121, 5_900.0, window=("kaiser", 8.0), fs=SAMPLE_RATE)
    padded = np.pad(analogue, [(0, 0), (taps.size // 2, taps.size // 2)], mode="edge")
    return np.asarray(sps.oaconvolve(padded, taps[None, :], mode="valid", axes=1))
