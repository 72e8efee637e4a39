from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.signal as sps

from cgsa.data.mcc5.recordings import GEARBOX_COLUMNS, gearbox_recording
from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE, Run, Severity
from cgsa.errors import ConfigError
from cgsa.rigs import RIGS
from cgsa.rigs.base import DoubleArray
from cgsa.rigs.gearbox import GearboxRig, brake_torque, gearbox_programme, record_gearbox
from cgsa.rigs.gearbox_model import OVERSAMPLING, TEETH, decimate
from cgsa.rigs.gearbox_parts import assemble_gearbox

RIG = GearboxRig()
GEARBOX_AXES = (4, 5, 6)
SETTLING = SAMPLE_RATE // 2


@cache
def twin(state: str, *, torque: float, severity: Severity = "H", speed: float = 1000.0, build: int = 1) -> Recording:
    """Return 3 s of a machine whose states differ in nothing but the fault."""
    samples = SETTLING + 3 * SAMPLE_RATE
    columns = record_gearbox(
        assemble_gearbox(state, severity, np.random.default_rng(build)),
        np.full(samples, speed),
        np.full(samples, torque),
        np.random.default_rng(1000 + build),
    )
    return gearbox_recording([column[SETTLING:] for column in columns], name="twin", source="twin")


def shaft_rates(recording: Recording) -> tuple[float, float]:
    """Return the revolutions per second of motor shaft and intermediate shaft."""
    motor = float(recording.conditions["speed"].mean()) / 60
    return motor, motor * TEETH[0] / TEETH[1]


def amplitude(recording: Recording, channel: int, frequency: float) -> float:
    """Return the amplitude of the line within 0.8 Hz of ``frequency``."""
    spectrum, frequencies = _spectrum(recording, channel)
    return float(spectrum[np.abs(frequencies - frequency) <= 0.8].max())


def over_floor(recording: Recording, frequency: float) -> float:
    """Return the line over the median of its neighbourhood, on the gearbox axis where it is strongest."""
    ratios = []
    for channel in GEARBOX_AXES:
        spectrum, frequencies = _spectrum(recording, channel)
        ratios.append(
            amplitude(recording, channel, frequency) / np.median(spectrum[np.abs(frequencies - frequency) <= 60])
        )
    return float(max(ratios))


def _spectrum(recording: Recording, channel: int) -> tuple[DoubleArray, DoubleArray]:
    signal = recording.signal[channel].astype(np.float64)
    spectrum = np.abs(np.fft.rfft((signal - signal.mean()) * np.hanning(signal.size))) * 4 / signal.size
    return spectrum, np.arange(spectrum.size) * SAMPLE_RATE / signal.size


def side_bands(recording: Recording) -> float:
    """Return the energy of the first three side bands of the intermediate shaft around the second mesh's harmonics."""
    _, shaft = shaft_rates(recording)
    orders = [TEETH[2] * harmonic + side for harmonic in range(1, 7) for side in (-3, -2, -1, 1, 2, 3)]
    return sum(amplitude(recording, channel, order * shaft) ** 2 for channel in GEARBOX_AXES for order in orders)


def once_per_revolution(recording: Recording) -> float:
    """Return the variation of the envelope over a revolution of the intermediate shaft, averaged over all of them."""
    turns = np.cumsum(recording.conditions["speed"].astype(np.float64)) / 60 / SAMPLE_RATE * TEETH[0] / TEETH[1]
    places = (turns % 1 * 2 * TEETH[2]).astype(int)
    visits = np.bincount(places)
    return sum(float((np.bincount(places, envelope(recording, axis)) / visits).var()) for axis in GEARBOX_AXES)


def envelope(recording: Recording, channel: int) -> DoubleArray:
    band = sps.butter(4, [700, 5500], "bandpass", fs=SAMPLE_RATE, output="sos")
    return np.asarray(np.abs(sps.hilbert(sps.sosfiltfilt(band, recording.signal[channel].astype(np.float64)))))


def power(recording: Recording) -> float:
    return float(recording.signal[list(GEARBOX_AXES)].var(axis=1).sum())


INDICATORS = {"gear_wear": power, "teeth_break": once_per_revolution, "teeth_crack": once_per_revolution}


def signature(state: str, *, torque: float, severity: Severity = "H") -> float:
    """Return the increase of the indicator due to the fault, over two builds of the machine."""
    indicator = INDICATORS[state]
    return sum(
        indicator(twin(state, torque=torque, severity=severity, build=build))
        - indicator(twin("health", torque=torque, build=build))
        for build in (1, 2)
    )


def test_the_rig_is_registered() -> None:
    assert RIGS["gearbox"] is GearboxRig
    assert GearboxRig.states == ("health", "gear_wear", "teeth_break", "teeth_crack")


@pytest.mark.parametrize("speed", [1000.0, 3000.0])
def test_both_meshes_show_their_lines(speed: float) -> None:
    # One build may have a weak harmonic, as its profile happens to be; three builds have none.
    builds = [twin("health", torque=20.0, speed=speed, build=build) for build in (1, 2, 3)]
    rates = [shaft_rates(recording) for recording in builds]
    assert all(motor * 60 == pytest.approx(speed, rel=0.016) for motor, _ in rates)

    def mean_over_floor(of_motor: float, of_intermediate: float) -> float:
        lines = [of_motor * motor + of_intermediate * intermediate for motor, intermediate in rates]
        return float(np.mean([over_floor(recording, line) for recording, line in zip(builds, lines, strict=True)]))

    for harmonic in (1, 2):
        assert mean_over_floor(harmonic * TEETH[0], 0) > 4
        assert mean_over_floor(0, harmonic * TEETH[2]) > 3


def test_the_motor_shows_its_shaft_line_and_twice_its_field() -> None:
    recording = twin("health", torque=20.0, speed=3000.0)
    motor, _ = shaft_rates(recording)
    spectrum, frequencies = _spectrum(recording, 3)
    floor = np.median(spectrum[(frequencies > 20) & (frequencies < 140)])
    assert amplitude(recording, 3, motor) > 10 * floor
    assert amplitude(recording, 3, 2 * motor) > 4 * floor
    # The field turns at the speed without load, a little faster than the slipping rotor.
    assert amplitude(recording, 3, 2 * 50.0 * 1.002) > 4 * floor


def test_mesh_lines_are_at_the_tooth_frequencies() -> None:
    recording = twin("health", torque=5.0)
    motor, intermediate = shaft_rates(recording)
    scale = 1000 / 60 / motor
    assert scale == pytest.approx(1, abs=0.005)
    for channel in GEARBOX_AXES:
        spectrum, frequencies = _spectrum(recording, channel)
        near = np.abs(frequencies * scale - 483.3) < 8
        assert frequencies[near][spectrum[near].argmax()] * scale == pytest.approx(483.3, abs=0.5)
    assert TEETH[2] * intermediate * scale == pytest.approx(183.2, abs=0.1)


@pytest.mark.parametrize("state", ["gear_wear", "teeth_break", "teeth_crack"])
def test_a_fault_raises_the_side_bands_at_the_intermediate_shaft(state: str) -> None:
    faulty, healthy = (
        sum(side_bands(twin(each, torque=20.0, build=build)) for build in (1, 2, 3)) for each in (state, "health")
    )
    assert faulty > 1.1 * healthy


def test_wear_changes_the_balance_of_the_mesh_harmonics() -> None:
    def balance(recording: Recording) -> DoubleArray:
        _, shaft = shaft_rates(recording)
        return np.array(
            [
                20 * np.log10(sum(amplitude(recording, axis, harmonic * TEETH[2] * shaft) for axis in GEARBOX_AXES))
                for harmonic in range(1, 7)
            ]
        )

    changes = {
        state: np.abs(balance(twin(state, torque=20.0)) - balance(twin("health", torque=20.0))).mean()
        for state in ("gear_wear", "teeth_crack")
    }
    assert changes["gear_wear"] > 2
    assert changes["gear_wear"] > changes["teeth_crack"]


@pytest.mark.parametrize("state", ["gear_wear", "teeth_break", "teeth_crack"])
def test_a_fault_shows_more_under_torque(state: str) -> None:
    assert signature(state, torque=20.0) > 1.5 * max(signature(state, torque=5.0), 0)


@pytest.mark.parametrize("state", ["gear_wear", "teeth_break", "teeth_crack"])
def test_a_severe_fault_shows_more_than_a_light_one(state: str) -> None:
    assert signature(state, torque=20.0, severity="H") > 1.5 * signature(state, torque=20.0, severity="L") > 0


def test_a_broken_tooth_is_absent_from_many_windows() -> None:
    def peaks(recording: Recording) -> DoubleArray:
        axis = envelope(recording, 5)
        return np.asarray(axis[: axis.size // 1024 * 1024].reshape(-1, 1024).max(axis=1))

    untouched = peaks(twin("health", torque=20.0)).max()
    struck = np.mean(peaks(twin("teeth_break", torque=20.0)) > untouched)
    # A window lasts 0.41 of a turn of the intermediate shaft, and a blow rings for a while.
    assert 0.25 < struck < 0.65


def test_specimens_differ_but_have_the_same_character() -> None:
    def levels(specimen: int, seed: int) -> DoubleArray:
        recording = RIG.drive("health", torque=20, speed=2000, seconds=1, specimen=specimen, seed=seed)
        _, density = sps.welch(recording.signal[1:], SAMPLE_RATE, nperseg=256)
        return np.log(density[:, 2:110]).ravel()

    first, again, other = levels(1, 0), levels(1, 1), levels(2, 0)
    assert np.abs(first - other).mean() > 2 * np.abs(first - again).mean()


def test_all_states_have_the_same_spread() -> None:
    healthy = assemble_gearbox("health", "H", np.random.default_rng(3))
    for state in GearboxRig.states[1:]:
        faulty = assemble_gearbox(state, "H", np.random.default_rng(3))
        np.testing.assert_array_equal(faulty.structure.gains, healthy.structure.gains)
        np.testing.assert_array_equal(faulty.first.driver_flank, healthy.first.driver_flank)
        assert faulty.unbalance == healthy.unbalance


def test_same_arguments_give_the_same_bits_and_a_seed_changes_them() -> None:
    first, again, other = (
        RIG.drive("teeth_crack", torque=10, speed=1000, seconds=0.3, seed=seed) for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first.signal, again.signal)
    assert not np.array_equal(first.signal, other.signal)
    assert first.source == again.source != other.source


def test_raw_columns_are_decimal_fractions() -> None:
    samples = SAMPLE_RATE // 4
    columns = record_gearbox(
        assemble_gearbox("health", "H", np.random.default_rng(0)),
        np.full(samples, 1000.0),
        np.full(samples, 10.0),
        np.random.default_rng(0),
    )
    assert len(columns) == len(GEARBOX_COLUMNS)
    for column in columns:
        text = [f"{value:.5f}" for value in column]
        np.testing.assert_array_equal(np.array([float(word) for word in text]), column)


def test_a_torque_run_follows_its_programme() -> None:
    recording = RIG.simulate("health", Run("torque", 20, 1000))
    assert recording.samples == 60 * SAMPLE_RATE
    assert recording.label == "health"
    assert recording.source == "rig:gearbox/specimen_1/health_torque_circulation_1000rpm_20Nm?seed=0"
    torque, speed = recording.conditions["torque"], recording.conditions["speed"]
    second = SAMPLE_RATE
    for part in (slice(0, second), slice(int(59.5 * second), None)):
        assert speed[part].max() == 0
        assert np.abs(torque[part]).max() < 0.3
        assert recording.signal[1:, part].std(axis=1).max() < 0.01
    assert speed[12 * second : 20 * second] == pytest.approx(987, abs=6)
    assert speed[6 * second] > speed[15 * second]
    assert [longest_hold(torque, level) >= 10 for level in (20, 15)] == [True, True]


def test_plateaus_of_the_lagging_brake_last_ten_seconds() -> None:
    for level in (10, 20):
        speed, set_torque = gearbox_programme(Run("torque", level, 3000))
        measured = brake_torque(set_torque)
        assert speed[0] == speed[-1] == 0
        assert speed.max() == 3000
        # 0.12 Nm of the tolerance is for the noise of the sensor.
        halves = np.array_split(measured, 2)
        assert all(longest_hold(half, level, tolerance=0.18) >= 10 for half in halves)
        assert longest_hold(measured, level - 5, tolerance=0.18) >= 10
        lag = (np.argmax(measured > level / 2) - np.argmax(set_torque > level / 2)) / SAMPLE_RATE
        assert lag == pytest.approx(1, abs=0.1)


def test_a_speed_run_varies_the_speed_under_constant_torque() -> None:
    speed, torque = gearbox_programme(Run("speed", 20, 3000))
    second = SAMPLE_RATE
    assert speed[[0, 15 * second, 30 * second, 45 * second, -1]] == pytest.approx([0, 3000, 2500, 3000, 0])
    assert torque[10 * second : 50 * second] == pytest.approx(20)


def longest_hold(trace: npt.NDArray[np.floating[Any]], level: float, tolerance: float = 0.3) -> float:
    """Return the longest time in seconds for which ``trace`` stays within ``tolerance`` of ``level``."""
    outside = np.flatnonzero(np.abs(trace - level) > tolerance)
    edges = np.concatenate([[-1], outside, [trace.size]])
    return float(np.diff(edges).max() - 1) / SAMPLE_RATE


def test_decimation_keeps_phase_and_suppresses_aliases() -> None:
    time = np.arange(4000 * OVERSAMPLING) / (SAMPLE_RATE * OVERSAMPLING)
    kept = decimate(np.sin(2 * np.pi * 3000 * time).astype(np.float32))
    assert kept[200:-200] == pytest.approx(np.sin(2 * np.pi * 3000 * time[::OVERSAMPLING])[200:-200], abs=1e-3)
    folded = decimate(np.sin(2 * np.pi * 9000 * time).astype(np.float32))
    assert np.abs(folded[200:-200]).max() < 1e-3


@pytest.mark.parametrize(
    ("state", "run", "severity", "message"),
    [
        ("gear_pitting", Run("torque", 20, 1000), "H", "gear_pitting"),
        ("gear_wear", Run("torque", 20, 1000), "X", "severity 'X'"),
        ("gear_wear", Run("torque", 40, 1000), "H", "5 to 25 Nm"),
        ("gear_wear", Run("speed", 20, 400), "H", "500 to 3000 rpm"),
    ],
)
def test_unsupported_arguments_are_refused(state: str, run: Run, severity: Severity, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RIG.simulate(state, run, severity=severity)


def test_a_steady_run_is_steady_to_its_last_sample() -> None:
    recording = RIG.drive("health", torque=12.5, speed=1500, seconds=0.5)
    assert recording.conditions["torque"] == pytest.approx(12.5, abs=0.3)
    assert recording.samples == SAMPLE_RATE // 2


def test_a_driven_machine_follows_a_curve_of_torque() -> None:
    recording = RIG.drive("health", torque={0.5: 5, 1.5: 15}, speed=1000, seconds=3)
    torque = recording.conditions["torque"]
    assert torque[: SAMPLE_RATE // 2] == pytest.approx(5, abs=0.3)
    # The brake answers after 0.7 s, and then takes its time.
    assert torque[-SAMPLE_RATE // 10 :].mean() == pytest.approx(15, abs=0.6)
