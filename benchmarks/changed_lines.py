"""Are the spectral lines that a model of the healthy machine names those of the physics? Every fault of the rigs.

    python benchmarks/changed_lines.py

Every rig is recorded healthy at three torques, and a model is trained on that alone. Then one assembly is commissioned
for five seconds, a fault develops in the same assembly, and after 15 s the script reads which lines the report names.
They are compared with those of the fault: for the gear, multiples of the speed of its shaft, which are the mesh
frequencies and their sidebands; for the ball of a bearing, impacts with their sidebands at the cage speed; for the
stator and the supply, multiples of the speed of the shaft of a two-pole motor. A line counts as matched within one
spectral line. *Chance* is the share of all frequencies that would match, and *other shafts* the share of 400 other
speeds, up to a tenth away, whose lines would match as many of the named ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
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
from cgsa.nn.spectra import ENVELOPE_HOP
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
TOLERANCE = 1.0
"""Lines by which a named line may differ."""
Frequencies = npt.NDArray[np.float64]


def gear_lines(speed: float) -> Frequencies:
    """Return the lines of the shaft with the faulty gear: mesh frequencies and their sidebands."""
    return np.asarray(speed * TEETH[0] / TEETH[1] * np.arange(1, 2000), dtype=np.float64)


def ball_lines(speed: float) -> Frequencies:
    """Return the lines of a damaged ball: impacts, their sidebands at the cage speed, and the cage speed itself."""
    order = np.arange(-SIDEBANDS, SIDEBANDS + 1)
    impacts = speed * STRIKE_RATIO * np.arange(0, 60)[:, None] + speed * CAGE_RATIO * order
    return np.sort(impacts[impacts > 0].ravel())


def electrical_lines(speed: float) -> Frequencies:
    """Return multiples of the speed of a two-pole motor, which with its slip are those of the supply, too."""
    return np.asarray(speed * np.arange(1, 200), dtype=np.float64)


PHYSICS: dict[str, Callable[[float], Frequencies]] = {
    "gear_wear": gear_lines,
    "teeth_break": gear_lines,
    "teeth_crack": gear_lines,
    "bearing_ball": ball_lines,
    "static_eccentricity": electrical_lines,
    "voltage_unbalance": electrical_lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rigs", nargs="*", default=list(SPEEDS))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/healthy_only"))
    options = parser.parse_args()
    rows = [row for rig in options.rigs for row in judge_rig(rig)]
    head = ("rig", "fault", "named", "matched", "chance", "other shafts", "score", "score, steady", "first named")
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
        named: list[tuple[bool, float]] = []
        scores, others, first = [], [], ""
        for specimen, bundle in models.items():
            lines, speed, score = develop(scenario, bundle, fault, specimen)
            named += matches(lines, PHYSICS[fault](speed), bundle)
            others += [other_shafts(lines, PHYSICS[fault], speed, bundle)] if lines else []
            scores.append(score)
            first = first or next((line.text for line in lines), "")
        matched, chance = sum(near for near, _ in named), sum(share for _, share in named) / max(1, len(named))
        means = [f"{np.mean(column):.2f}" for column in (*zip(*scores, strict=True), others or [1.0])]
        rows.append((name, fault, f"{len(named)}", f"{matched}", f"{chance:.2f}", means[2], means[0], means[1], first))
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


def develop(
    scenario: Scenario, bundle: ModelBundle, fault: str, specimen: int
) -> tuple[tuple[ChangedLine, ...], float, tuple[float, float]]:
    """Return the named lines, the speed of the shaft in Hz, and the last score for changing and steady conditions."""
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
    return lines, float(np.mean(faulty.conditions["speed"])) / 60, (scores[0], scores[1])


def matches(lines: Sequence[ChangedLine], expected: Frequencies, bundle: ModelBundle) -> list[tuple[bool, float]]:
    """Return whether each named line is one of the expected ones, and the share of frequencies around it that are."""
    config, rate = bundle.require_change().config, bundle.manifest.sample_rate
    frames = {one.kind: one.frame for one in config.lines}
    found = []
    for line in lines:
        resolution = rate / ENVELOPE_HOP / frames["envelope"] if line.envelope else rate / frames["spectrum"]
        around = np.linspace(0.8 * line.frequency, 1.2 * line.frequency, 2000)
        gaps = np.abs(np.append(around, line.frequency)[:, None] - expected).min(axis=1) <= TOLERANCE * resolution
        found.append((bool(gaps[-1]), float(gaps[:-1].mean())))
    return found


def other_shafts(
    lines: Sequence[ChangedLine], physics: Callable[[float], Frequencies], speed: float, bundle: ModelBundle
) -> float:
    """Return the share of other speeds of the shaft whose lines match as many of the named ones."""
    right = sum(near for near, _ in matches(lines, physics(speed), bundle))
    factors = [factor for factor in np.linspace(0.9, 1.1, 401) if abs(factor - 1) > 0.002]
    others = [sum(near for near, _ in matches(lines, physics(factor * speed), bundle)) for factor in factors]
    return sum(other >= right for other in others) / len(others)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
