"""Are the spectral lines that a model of the healthy machine names those of the physics? Every fault of the rigs.

    python benchmarks/changed_lines.py

Every rig is recorded healthy at three torques, and a model is trained on that alone. Then one assembly is commissioned
for five seconds, a fault develops in the same assembly, and after 15 s the script reads which lines the report names.
A named line is as wide as a second allows, so the script locates its peak in the spectrum of all 15 s, on the same
channel, and compares that with the lines of the fault:

- gear: multiples of the speed of its shaft, which are the mesh frequencies and their sidebands, within 0.1 Hz;
- stator and supply: sums of multiples of the supply frequency and of up to two shaft speeds, within 0.1 Hz;
- ball of a bearing: impacts with their sidebands at the cage speed, and the cage speed; they wander by a percent, so
  they are compared as named, within one line.

Frequencies that several channels name count once. *By chance* is the share of 400 random frequencies in the named
range that match after the same treatment, peaks of the healthy machine included, and *other speeds* the share of 400
other speeds, up to a tenth away, whose lines match as many of the named ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from cgsa.bench.tables import Table
from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Segment, Windows
from cgsa.events import ChangedLine
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.spectra import ENVELOPE_FRAME, ENVELOPE_HOP
from cgsa.online.change import Change
from cgsa.profile import Profile
from cgsa.rigs import RIGS
from cgsa.rigs.gearbox_model import TEETH
from cgsa.rigs.motor_model import CAGE_RATIO, STRIKE_RATIO
from cgsa.workflow import train, training_spec

SPEEDS = {"gearbox": 1000.0, "motor": 2000.0}
TORQUES = {"gearbox": (5.0, 10.0, 15.0), "motor": (10.0, 20.0, 30.0)}
TRAINING_SECONDS, START_SECONDS, HEALTHY_SECONDS, FAULT_SECONDS = 6.0, 5.0, 7.0, 15.0
SPECIMENS = (1, 2, 3)
SIDEBANDS = 3
TOLERANCE = 0.1
"""Hz by which the peak of a named line may differ."""
RANDOM = 400
Frequencies = npt.NDArray[np.float64]


def gear_lines(speed: float) -> Frequencies:
    """Return the lines of the shaft with the faulty gear: mesh frequencies and their sidebands."""
    return np.asarray(speed * TEETH[0] / TEETH[1] * np.arange(1, 2000), dtype=np.float64)


def ball_lines(speed: float) -> Frequencies:
    """Return the lines of a damaged ball: impacts, their sidebands at the cage speed, and the cage speed itself."""
    order = np.arange(-SIDEBANDS, SIDEBANDS + 1)
    impacts = speed * STRIKE_RATIO * np.arange(0, 60)[:, None] + speed * CAGE_RATIO * order
    return np.sort(impacts[impacts > 0].ravel())


def electrical_lines(speed: float, supply: float) -> Frequencies:
    """Return the lines of stator and supply: multiples of the supply frequency, and up to two shaft speeds away."""
    order = np.arange(-2, 3)
    return np.unique(np.abs(supply * np.arange(0, 180)[:, None] + speed * order))[1:]


@dataclass(frozen=True)
class Development:
    """What a report names after a fault has developed, and the recording of the fault."""

    lines: tuple[ChangedLine, ...]
    score: float
    steady_score: float
    recording: Recording
    resolutions: Mapping[bool, float]
    """Distance of the lines of a report in Hz: of a spectrum (False), of an envelope (True)."""

    @property
    def speed(self) -> float:
        """Speed of the driving shaft in Hz."""
        return float(np.mean(self.recording.conditions["speed"])) / 60

    @property
    def supply(self) -> float:
        """Supply frequency of a motor in Hz: the highest line of its current, which slip lifts above the speed."""
        return locate(self.recording, "current_a", 1.03 * self.speed, 0.05 * self.speed)


def expected_lines(fault: str, run: Development, factor: float = 1.0) -> Frequencies:
    """Return the lines of a fault, if all speeds were a factor higher."""
    if fault == "bearing_ball":
        return ball_lines(factor * run.speed)
    if fault in {"static_eccentricity", "voltage_unbalance"}:
        return electrical_lines(factor * run.speed, factor * run.supply)
    return gear_lines(factor * run.speed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rigs", nargs="*", default=list(SPEEDS))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/healthy_only"))
    options = parser.parse_args()
    rows = [row for rig in options.rigs for row in judge_rig(rig)]
    head = ("rig", "fault", "named", "matched", "by chance", "other speeds", "score", "score, steady", "first named")
    text = Table("changed_lines", head, tuple(rows)).markdown()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "changed_lines.md").write_text(text)
    print(text)


def judge_rig(name: str) -> list[tuple[str, ...]]:
    """Return one row per fault of a rig."""
    scenario = Scenario.load(name)
    rows: list[tuple[str, ...]] = []
    models = {specimen: healthy_model(scenario, specimen) for specimen in SPECIMENS}
    for fault in scenario.faults:
        runs = [develop(scenario, bundle, fault, specimen) for specimen, bundle in models.items()]
        runs = [run for run in runs if run.lines]
        found = [located(fault, run) for run in runs]
        named, matched = (
            sum(map(len, found)),
            sum(matches(fault, run, some) for run, some in zip(runs, found, strict=True)),
        )
        means = [
            np.mean([function(fault, run) for run in runs]) if runs else np.nan
            for function in (by_chance, other_speeds, lambda _, run: run.score, lambda _, run: run.steady_score)
        ]
        first = next((run.lines[0].text for run in runs), "")
        rows.append((name, fault, f"{named}", f"{matched}", *(f"{mean:.2f}" for mean in means), first))
        print(rows[-1], flush=True)
    return rows


def drive(scenario: Scenario, state: str, torque: float, seconds: float, *, specimen: int, seed: int) -> Recording:
    """Return a recording of one assembly, healthy or with a fault that has developed in it."""
    return RIGS[scenario.name]().drive(
        state,
        torque=torque,
        speed=SPEEDS[scenario.name],
        seconds=seconds,
        severity=scenario.severity_of(state),
        specimen=specimen,
        seed=seed,
        same_assembly=True,
    )


def healthy_model(scenario: Scenario, specimen: int) -> ModelBundle:
    """Train on the healthy assembly at all torques."""
    profile = Profile.load("healthy_only")
    recordings = [
        drive(scenario, scenario.healthy, torque, TRAINING_SECONDS, specimen=specimen, seed=number)
        for number, torque in enumerate(TORQUES[scenario.name])
    ]
    segments = [Segment(one.select(scenario.channels), 0, number) for number, one in enumerate(recordings)]
    windows = Windows(segments, training_spec(segments, profile), conditions=scenario.condition_names)
    [bundle] = train(scenario, profile, windows)
    return bundle


def develop(scenario: Scenario, bundle: ModelBundle, fault: str, specimen: int) -> Development:
    """Return what the report names, and the last score for changing and steady conditions."""
    torque = TORQUES[scenario.name][1]
    healthy = drive(scenario, scenario.healthy, torque, HEALTHY_SECONDS, specimen=specimen, seed=100)
    faulty = drive(scenario, fault, torque, FAULT_SECONDS, specimen=specimen, seed=101)
    scores: list[float] = []
    lines: tuple[ChangedLine, ...] = ()
    for steady in (False, True):
        method = Change(bundle, {"healthy_start": True, "seconds": START_SECONDS, "steady": steady})
        for recording in (healthy, faulty):
            windows = Windows([Segment(recording.select(scenario.channels), 0, 0)], bundle.manifest.window)
            for _, x in windows.batches(8):
                method.step(x)
        report = method.change
        scores.append(report.score if report else 0.0)
        lines = report.lines if report else ()
    frames = {one.kind: one.frame for one in bundle.require_change().config.lines}
    rate = bundle.manifest.sample_rate
    resolutions = {False: rate / frames["spectrum"], True: rate / ENVELOPE_HOP / frames["envelope"]}
    return Development(lines, scores[0], scores[1], faulty, resolutions)


def locate(recording: Recording, channel: str, frequency: float, reach: float, *, envelope: bool = False) -> float:
    """Return where the highest line of a whole recording around a frequency is."""
    lines, distance = whole_spectrum(recording, channel, envelope=envelope)
    place = np.arange(round((frequency - reach) / distance), round((frequency + reach) / distance) + 1)
    place = place[(place > 0) & (place < len(lines))]
    return float(place[lines[place].argmax()] * distance)


@lru_cache(maxsize=16)
def whole_spectrum(recording: Recording, channel: str, *, envelope: bool) -> tuple[Frequencies, float]:
    """Return the amplitudes of a channel or of its envelope over a whole recording, and the distance of its lines."""
    signal, rate = recording.signal[recording.channels.index(channel)].astype(np.float64), recording.sample_rate
    if envelope:
        frames = np.lib.stride_tricks.sliding_window_view(signal, ENVELOPE_FRAME)[::ENVELOPE_HOP]
        signal = np.abs(np.fft.rfft(frames * np.hanning(ENVELOPE_FRAME))[:, 1:]).sum(axis=1)
        rate = rate / ENVELOPE_HOP
    size = 4 * len(signal)
    return np.abs(np.fft.rfft((signal - signal.mean()) * np.hanning(len(signal)), size)), rate / size


def located(fault: str, run: Development) -> list[ChangedLine]:
    """Return the named lines at the frequencies of their peaks, each frequency of a kind once."""
    found: list[ChangedLine] = []
    for named in run.lines:
        reach, frequency = run.resolutions[named.envelope], named.frequency
        if fault != "bearing_ball":
            frequency = locate(run.recording, named.channel, frequency, reach, envelope=named.envelope)
        if all(other.envelope != named.envelope or abs(other.frequency - frequency) > TOLERANCE for other in found):
            found.append(replace(named, frequency=frequency))
    return found


def matches(fault: str, run: Development, lines: Sequence[ChangedLine], factor: float = 1.0) -> int:
    """Return how many lines are those of the fault, if all speeds were a factor higher."""
    expected = expected_lines(fault, run, factor)
    return sum(
        bool(np.abs(expected - line.frequency).min() <= (run.resolutions[line.envelope] if wanders else TOLERANCE))
        for wanders in [fault == "bearing_ball"]
        for line in lines
    )


def by_chance(fault: str, run: Development) -> float:
    """Return the share of random frequencies on the named channels that match after the same treatment."""
    rng, shares = np.random.default_rng(0), []
    for line in run.lines:
        low, high = 0.5 * line.frequency, 1.5 * line.frequency
        drawn = [replace(line, frequency=float(one)) for one in rng.uniform(low, high, RANDOM // len(run.lines))]
        random = [located(fault, replace(run, lines=(one,)))[0] for one in drawn]
        shares.append(matches(fault, run, random) / len(random))
    return float(np.mean(shares))


def other_speeds(fault: str, run: Development) -> float:
    """Return the share of other speeds whose lines match as many of the named ones."""
    lines = located(fault, run)
    right = matches(fault, run, lines)
    factors = [factor for factor in np.linspace(0.9, 1.1, RANDOM + 1) if abs(factor - 1) > 0.002]
    return sum(matches(fault, run, lines, factor) >= right for factor in factors) / len(factors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
