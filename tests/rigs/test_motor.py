"""The simulated motor compared with the known behaviour of an induction motor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import scipy.signal as sps

from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE, Run, Severity
from cgsa.errors import ConfigError
from cgsa.rigs import RIGS, motor, motor_model
from cgsa.rigs.base import DoubleArray, Rig, run_generator
from cgsa.rigs.motor import MotorRig

SUPPLY = motor.COMMAND * 2000 / 60
"""Supply frequency at nominal 2000 rpm."""
SPECIMENS = (1, 2, 3)
Measure = Callable[[Recording], float]


@cache
def steady(
    state: str,
    torque: int,
    *,
    speed: int = 2000,
    seconds: float = 2.0,
    severity: Severity = "H",
    specimen: int = 1,
    seed: int = 0,
) -> Recording:
    return MotorRig().drive(
        state, torque=torque, speed=speed, seconds=seconds, severity=severity, specimen=specimen, seed=seed
    )


@pytest.fixture(scope="module")
def torque_run() -> Recording:
    return MotorRig().simulate("health", Run("torque", 40, 2000))


def rpm(recording: Recording) -> float:
    return float(recording.conditions["speed"].mean())


def mean_between(recording: Recording, condition: str, start: float, stop: float) -> float:
    return float(recording.conditions[condition][round(start * SAMPLE_RATE) : round(stop * SAMPLE_RATE)].mean())


def channel(recording: Recording, name: str) -> DoubleArray:
    return np.asarray(recording.signal[recording.channels.index(name)], np.float64)


def line(signal: npt.NDArray[np.inexact], frequency: float, width: float = 1.5) -> float:
    """Return the amplitude of the largest line near ``frequency``; a negative one is a vector rotating backwards."""
    window = np.hanning(signal.size)
    spectrum = np.abs(np.fft.fft((signal - signal.mean()) * window)) / window.sum()
    near = np.abs(np.fft.fftfreq(signal.size, 1 / SAMPLE_RATE) - frequency) < width
    return float(spectrum[near].max())


def current_vector(recording: Recording) -> npt.NDArray[np.complex128]:
    a, b, c = (channel(recording, f"current_{phase}") for phase in "abc")
    return np.asarray((2 * a - b - c) / 3 + 1j * (b - c) / np.sqrt(3), np.complex128)


def negative_sequence(recording: Recording) -> float:
    # The phase order is reversed: the main field turns at minus the supply frequency.
    return line(current_vector(recording), SUPPLY)


def twice_supply(recording: Recording) -> float:
    return line(channel(recording, "vibration_x"), 2 * SUPPLY)


def envelope(recording: Recording) -> DoubleArray:
    band = sps.butter(4, [1500, 5500], "bandpass", fs=SAMPLE_RATE, output="sos")
    return np.abs(sps.hilbert(sps.sosfiltfilt(band, channel(recording, "vibration_z"))))


def strike_frequency(recording: Recording) -> float:
    return motor_model.STRIKE_RATIO * rpm(recording) / 60


def average(measure: Measure, state: str, torque: int, severity: Severity = "H") -> float:
    return float(np.mean([measure(steady(state, torque, severity=severity, specimen=n)) for n in SPECIMENS]))


def test_the_rig_is_registered() -> None:
    rig: type[Rig] = MotorRig
    assert RIGS["motor"] is rig


@pytest.mark.parametrize(
    ("speed", "torque", "expected"), [(1000, 0, 1003), (1000, 40, 969), (3000, 0, 3008), (3000, 40, 2921)]
)
def test_speed_under_load_is_that_of_the_data_set(speed: int, torque: int, expected: float) -> None:
    measured = np.mean([rpm(steady("health", torque, speed=speed, seconds=1.0, specimen=n)) for n in SPECIMENS])
    assert measured == pytest.approx(expected, abs=8)


def test_slip_grows_with_load() -> None:
    slips = [1 - rpm(steady("health", torque)) / (60 * SUPPLY) for torque in (0, 20, 40)]
    assert slips == sorted(slips)
    assert slips[0] > 0.001
    assert slips[2] < 0.04


def test_supply_line_is_at_the_supply_frequency_in_reversed_phase_order() -> None:
    vector = current_vector(steady("health", 40))
    window = np.hanning(vector.size)
    spectrum = np.abs(np.fft.fft(vector * window))
    assert np.fft.fftfreq(vector.size, 1 / SAMPLE_RATE)[spectrum.argmax()] == pytest.approx(-SUPPLY, abs=0.5)


def test_current_is_that_of_the_nameplate() -> None:
    load = np.sqrt(np.mean(channel(steady("health", 40, speed=3000), "current_a") ** 2))
    idle = np.sqrt(np.mean(channel(steady("health", 0, speed=3000), "current_a") ** 2))
    assert 3.0 < load < 4.7
    assert 0.25 * 4.7 < idle < 0.5 * 4.7


@pytest.mark.parametrize("torque", [0.0, 40.0])
def test_electrical_torque_equals_load_and_friction(torque: float) -> None:
    machine = motor_model.MotorParameters()
    steps = 2 * motor_model.RATE
    zero = np.zeros(steps)
    drive = motor_model.DriveInputs(np.full(steps, 33.5), np.full(steps, 220.0), np.full(steps, torque), zero, zero)
    motion = motor_model.integrate_motor(machine, drive, speed=205.0, phases=np.zeros(4))
    settled = slice(steps // 2, None)
    speed = float(motion.speed[settled].mean())
    expected = torque / motor_model.GEAR_RATIO + motor_model.friction_torque(machine, speed)
    assert motion.torque[settled].mean() == pytest.approx(expected, rel=0.01)


def test_slip_follows_the_equivalent_circuit() -> None:
    """The stationary machine without harmonics obeys the textbook circuit, solved here by phasors."""
    machine = motor_model.MotorParameters(fifth=0, seventh=0, carrier_voltage=0, slot_permeance=0, slot_load=0)
    steps = 2 * motor_model.RATE
    zero = np.zeros(steps)
    drive = motor_model.DriveInputs(np.full(steps, 33.5), np.full(steps, 220.0), np.full(steps, 40.0), zero, zero)
    motion = motor_model.integrate_motor(machine, drive, speed=205.0, phases=np.zeros(4))
    omega = 2 * np.pi * 33.5
    slip = 1 - motion.speed[-motor_model.RATE :].mean() / omega
    rotor = machine.rotor_resistance / slip + 1j * omega * machine.rotor_leakage
    gap = 1j * omega * machine.magnetising
    impedance = machine.stator_resistance + 1j * omega * machine.stator_leakage + gap * rotor / (gap + rotor)
    measured = np.abs(motion.stator_current[-motor_model.RATE :]).mean()
    assert measured == pytest.approx(220.0 / abs(impedance), rel=0.005)


def test_negative_sequence_grows_with_the_unbalance() -> None:
    sizes = [average(negative_sequence, "health", 20)]
    sizes += [average(negative_sequence, "voltage_unbalance", 20, severity) for severity in ("L", "M", "H")]
    assert sizes == sorted(sizes)
    assert sizes[3] > 2 * sizes[1] > 4 * sizes[0]


@pytest.mark.parametrize("state", ["voltage_unbalance", "static_eccentricity"])
def test_twice_supply_grows_in_vibration(state: str) -> None:
    assert average(twice_supply, state, 40) > 1.5 * average(twice_supply, "health", 40)


def test_eccentricity_lines_are_in_the_current() -> None:
    def mixed(recording: Recording) -> float:
        return line(channel(recording, "current_a"), SUPPLY + rpm(recording) / 60)

    def slot_side_band(recording: Recording) -> float:
        return line(channel(recording, "current_a"), motor_model.MotorParameters().bars * rpm(recording) / 60)

    for measure in (mixed, slot_side_band):
        light = average(measure, "static_eccentricity", 40, "L")
        assert average(measure, "static_eccentricity", 40, "H") > 1.5 * light
        assert light > 1.2 * average(measure, "health", 40)


def test_rotor_slot_harmonics_are_in_the_current() -> None:
    recording = steady("health", 40)
    current = channel(recording, "current_a")
    slots = motor_model.MotorParameters().bars * rpm(recording) / 60
    background = line(current, slots + 2.5 * SUPPLY)
    assert line(current, slots + SUPPLY) > 5 * background
    assert line(current, slots - SUPPLY) > 5 * background


def test_damaged_ball_strikes_at_twice_its_spin() -> None:
    prominence = {}
    for state in ("health", "bearing_ball"):
        recording = steady(state, 40, seconds=6.0)
        trace = envelope(recording)
        frequencies, power = sps.welch(trace - trace.mean(), SAMPLE_RATE, nperseg=2 * SAMPLE_RATE)
        expected = strike_frequency(recording)
        band = (frequencies > 0.8 * expected) & (frequencies < 1.2 * expected)
        prominence[state] = power[band].max() / np.median(power[band])
        peak = frequencies[band][power[band].argmax()]
    cage = motor_model.CAGE_RATIO * rpm(recording) / 60
    # The strongest line is the strike itself or one of the side bands that the cage makes.
    assert min(abs(peak - expected - k * cage) for k in (-1, 0, 1)) < 0.02 * expected
    assert prominence["bearing_ball"] > 5 > prominence["health"]


def test_cage_modulates_the_strikes() -> None:
    recording = steady("bearing_ball", 40, seconds=6.0)
    cage = motor_model.CAGE_RATIO * rpm(recording) / 60
    healthy = steady("health", 40, seconds=6.0)
    assert line(envelope(recording), cage, 0.5) > 3 * line(envelope(healthy), cage, 0.5)


def test_strikes_fade_in_and_out() -> None:
    trace = envelope(steady("bearing_ball", 40, seconds=6.0))
    windows = trace[: trace.size // 1024 * 1024].reshape(-1, 1024).max(axis=1)
    assert np.quantile(windows, 0.9) > 1.7 * np.quantile(windows, 0.1)


@pytest.mark.parametrize(
    ("state", "measure"),
    [
        ("voltage_unbalance", negative_sequence),
        ("static_eccentricity", twice_supply),
        ("bearing_ball", lambda recording: line(envelope(recording), strike_frequency(recording), 2.5)),
    ],
)
def test_signatures_grow_with_torque_and_severity(state: str, measure: Measure) -> None:
    assert average(measure, state, 0) < average(measure, state, 40)
    assert average(measure, state, 40, "L") < average(measure, state, 40, "H")


def test_a_specimen_is_reproducible_and_differs_from_others() -> None:
    def levels(specimen: int, seed: int) -> DoubleArray:
        return np.asarray(steady("health", 20, specimen=specimen, seed=seed).signal[1:4].std(axis=1), np.float64)

    first, again, other = levels(1, 0), levels(1, 1), levels(2, 0)
    assert np.all(np.abs(again / first - 1) < 0.05)
    assert np.max(np.abs(other / first - 1)) > 0.05


def test_same_arguments_give_the_same_bits() -> None:
    first, again, other = (
        MotorRig().drive("bearing_ball", torque=20, speed=1000, seconds=0.3, seed=seed) for seed in (3, 3, 4)
    )
    assert np.array_equal(first.signal, again.signal)
    assert not np.array_equal(first.signal, other.signal)


def test_simulation_does_not_use_the_global_generator() -> None:
    before = np.random.get_state(legacy=False)  # noqa: NPY002 - the global generator is what is watched here
    steady("health", 20, seconds=0.2)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert str(before) == str(after)


def test_recording_has_the_format_of_the_data_set(torque_run: Recording) -> None:
    assert torque_run.samples == 90 * 12_800
    assert torque_run.sample_rate == 12_800
    assert torque_run.channels == ("key_phase", *(f"vibration_{a}" for a in "xyz"), *(f"current_{p}" for p in "abc"))
    assert torque_run.label == "health"
    assert torque_run.source == "rig:motor/specimen_1/health_torque_circulation_40Nm_2000rpm?seed=0"
    assert torque_run.notes == ()
    torque_run.require_finite()


def test_sources_of_recordings_are_unique() -> None:
    recordings = [
        steady("bearing_ball", 20, seconds=0.2),
        steady("health", 20, seconds=0.2),
        steady("bearing_ball", 0, seconds=0.2),
        steady("bearing_ball", 20, seconds=0.2, speed=1000),
        steady("bearing_ball", 20, seconds=0.2, severity="L"),
        steady("bearing_ball", 20, seconds=0.2, specimen=2),
        steady("bearing_ball", 20, seconds=0.2, seed=1),
    ]
    assert len({recording.source for recording in recordings}) == len(recordings)


def test_health_has_no_severity() -> None:
    light, heavy = (steady("health", 20, seconds=0.2, severity=severity) for severity in ("L", "H"))
    assert np.array_equal(light.signal, heavy.signal)


def test_key_phase_has_the_right_levels_and_speed(torque_run: Recording) -> None:
    pulse = channel(torque_run, "key_phase")[20 * SAMPLE_RATE : 30 * SAMPLE_RATE]
    assert -0.5 < pulse.min() < -0.1
    assert 3.7 < pulse.max() < 4.2
    assert np.mean(pulse > 2) == pytest.approx(0.11, abs=0.01)
    turns = np.count_nonzero((pulse[:-1] < 2) & (pulse[1:] >= 2))
    assert mean_between(torque_run, "speed", 20, 30) == pytest.approx(turns * 6, abs=6)


def test_torque_run_follows_its_programme(torque_run: Recording) -> None:
    assert mean_between(torque_run, "torque", 0, 5) == pytest.approx(0, abs=0.2)
    for start, stop, level in ((14, 32, 40), (41, 57, 30), (65, 81, 40)):
        assert mean_between(torque_run, "torque", start, stop) == pytest.approx(level, rel=0.04)
    # The brake lags its set curve by about a second: half way up the ramp it is a sixth of the level behind.
    assert mean_between(torque_run, "torque", 7.9, 8.1) == pytest.approx(40 * (3 - 1) / 6, rel=0.1)
    assert mean_between(torque_run, "speed", 4, 5) > mean_between(torque_run, "speed", 41, 57)
    assert mean_between(torque_run, "speed", 41, 57) > mean_between(torque_run, "speed", 14, 32)


def test_speed_run_starts_under_load_and_follows_its_programme() -> None:
    run = Run("speed", 40, 2000)
    drive = motor._drive_inputs(*motor.motor_programme(run), run_generator("motor", "health", "H", 1, run=run, seed=0))
    motion = motor_model.integrate_motor(
        motor.assemble_motor("health", "H", 1).machine, drive, speed=0.0, phases=np.zeros(4)
    )

    def mean(trace: DoubleArray, start: float, stop: float) -> float:
        return float(trace[round(start * motor_model.RATE) : round(stop * motor_model.RATE)].mean())

    for start, stop, level in ((11, 29, 2000), (35, 54, 1500), (60, 79, 2000)):
        assert mean(motion.speed, start, stop) * 30 / np.pi == pytest.approx(level, rel=0.04)
        assert mean(drive.load, start, stop) == pytest.approx(40, rel=0.05)
    assert mean(motion.speed, 0, 1) == 0
    assert mean(motion.speed, 89.5, 90) == pytest.approx(0, abs=0.01)


def test_motor_is_at_standstill_at_start_and_end(torque_run: Recording) -> None:
    for rest in (slice(0, SAMPLE_RATE // 2), slice(-SAMPLE_RATE // 4, None)):
        assert torque_run.conditions["speed"][rest].max() == 0
        assert torque_run.signal[1:4, rest].std(axis=1).max() < 0.02


def test_raw_columns_are_restored_from_a_csv() -> None:
    run = Run("torque", 20, 2000)
    rng = run_generator("motor", "health", "H", 1, run=run, seed=0)
    drive = motor._drive_inputs(np.full(2000, 2000.0), np.full(2000, 20.0), rng)
    for column in motor._record(motor.assemble_motor("health", "H", 1), drive, 205.0, rng):
        assert np.array_equal(column, [float(f"{value:.5f}") for value in column])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="no state 'bearing_bal'; it has health"):
        steady("bearing_bal", 20)


def test_a_driven_machine_follows_a_curve_of_torque() -> None:
    recording = MotorRig().drive("health", torque={0.5: 10, 1.5: 30}, speed=2000, seconds=7)
    torque = recording.conditions["torque"]
    assert torque[: SAMPLE_RATE // 2].mean() == pytest.approx(10, rel=0.1)
    assert torque[-SAMPLE_RATE // 2 :].mean() == pytest.approx(30, rel=0.1)
