"""Is a signal that does not come from the machine noticed? Every set, every operating condition left out in turn.

    python benchmarks/impostors.py --data RECORDINGS --rigs runs/data

RECORDINGS has one folder per real set, ``runs/data`` one per rig (``cgsa simulate gearbox runs/data/gearbox``). The
script leaves one operating condition at a time out of training, as the profile ``recommended`` trains, and replaces the
recordings made there by impostors. A window counts as noticed if the checks of the model call it unknown or ask about
the sensor, or if the quality gate rejects it. Windows are counted one by one, without joining them over time.
Genuine windows of the same recordings give the false rates. The quality gate is counted neither for them nor for other
machines.

It writes one row per set, left-out condition and impostor, and a table of all sets.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from cgsa.bench.rotation.points import training_selection
from cgsa.bench.rotation.sets import RotationSet, rig_set, steady_state_set
from cgsa.data.equal_samples import usual_equal_samples
from cgsa.data.library import open_library
from cgsa.data.windows import Segment, Windows, overlapping_windows
from cgsa.live.intake.quality import QualityConfig, QualityGate
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import QUESTION, UNLIKE, KnownCheck, KnownConfig
from cgsa.offline.ensemble import extract_features
from cgsa.offline.impostors import impostors
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.known import fit_known
from cgsa.offline.offset import NO_OFFSET
from cgsa.offline.portfolio import choose_features
from cgsa.profile import Profile
from cgsa.workflow import training_spec

REAL = ("limerick_motor", "spectraquest_gearbox", "phone_motor2", "current_motor", "kat_units", "bldc_iq")
RIGS = ("gearbox", "motor")
MIN_TRAINED_POINTS = 2
GENUINE_WINDOWS, IMPOSTOR_WINDOWS = 24, 6
"""Windows of a recording, evenly spaced: more of the genuine ones, since false rates are small."""
CLIPPED_SHARE = 0.05
"""Share of the samples of every channel that clipping cuts, half of them at either end: a limit in deviations would be
above the crest of a sine."""
OTHERS_PER_SET, OTHER_SAMPLES = 8, 100_000
"""Recordings of each set that stand in for another machine, and samples of each."""
GENUINE, HEALTHY, OTHER = "genuine", "healthy", "other machine"
WHITE, WHITE_WITH_OFFSET = "white noise", "white noise with the static offset"


@dataclass(frozen=True)
class Row:
    """Windows of one kind at one left-out condition."""

    set: str
    left_out: str
    impostor: str
    windows: int
    noticed: int
    by_gate: int
    """Windows that the quality gate rejects."""
    named: int
    """Windows for which the check of the same impostor asks."""


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training without the left-out condition gives."""

    ensemble: Ensemble
    check: KnownCheck
    known: KnownConfig
    gate: QualityGate
    questions: dict[str, str]
    """The question that names each impostor."""


Signal = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rigs", type=Path)
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/impostors"))
    options = parser.parse_args()
    every = {name: steady_state_set(options.data / name) for name in REAL if (options.data / name).is_dir()}
    if options.rigs:
        found = [name for name in RIGS if (options.rigs / name).is_dir()]
        every |= {name: rig_set(name, options.rigs / name, simulated=False) for name in found}
    others = {name: healthy_signals(rotated) for name, rotated in every.items()}
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.sets or every:
        foreign = {one: signals for one, signals in others.items() if one != name}
        rows = list(rotate(every[name], foreign))
        write_rows(options.output / f"{name}.csv", rows)
        print(f"{name}: {len(rows)} rows", flush=True)
    table = table_of(options.output)
    (options.output / "table.md").write_text(table)
    print(table)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def segments_at(rotated: RotationSet, points: Sequence[object]) -> list[Segment]:
    chosen = [point for point in rotated.points if point in points]
    offline = training_selection(chosen, rotated.scenario.conditions, (0.0, 1.0))
    scenario = replace(rotated.scenario, offline=offline)
    return scenario.training_segments(open_library(rotated.folder, scenario))


def healthy_signals(rotated: RotationSet) -> list[Signal]:
    """Return some healthy recordings of a set, to be played as another machine."""
    healthy = [one.recording.signal for one in segments_at(rotated, rotated.points) if one.label == 0]
    chosen = evenly_spaced(len(healthy), OTHERS_PER_SET, torch.device("cpu")).tolist()
    return [healthy[number][:, :OTHER_SAMPLES].astype(np.float64) for number in chosen]


def rotate(rotated: RotationSet, foreign: dict[str, list[Signal]]) -> Iterator[Row]:
    """Yield the rows of every left-out condition."""
    random = np.random.default_rng(1)
    for point in rotated.points:
        remaining = [one for one in rotated.points if one != point]
        if len(remaining) < MIN_TRAINED_POINTS:
            continue
        trained = train(rotated, segments_at(rotated, remaining))
        left_out = segments_at(rotated, [point])
        counted: dict[str, list[tuple[int, int, int, int]]] = {}
        for segment in left_out:
            signal = segment.recording.signal.astype(np.float64)
            shown = {GENUINE: signal, **({HEALTHY: signal} if segment.label == 0 else {})}
            shown |= imitations_of(segment, random)
            if trained.check.offset is not None:
                # An input that is not connected delivers noise without gravity.
                noise = shown[WHITE]
                shown |= {WHITE: noise - noise.mean(axis=1, keepdims=True), WHITE_WITH_OFFSET: noise}
            shown |= {f"{OTHER}: {name}": played(signal, found, random) for name, found in foreign.items()}
            for name, imitation in shown.items():
                counted.setdefault(name, []).append(count(trained, imitation, name))
        for name, found_counts in counted.items():
            totals = (sum(column) for column in zip(*found_counts, strict=True))
            yield Row(rotated.name, rotated.point_name(point), name, *totals)


def train(rotated: RotationSet, segments: list[Segment]) -> Trained:
    """Fit what decides whether a window is known; the classifiers have no part in it."""
    scenario, profile = rotated.scenario, Profile.load("recommended")
    spec = training_spec(segments, profile)
    windows = Windows(segments, spec, conditions=scenario.condition_names)
    config = choose_features(scenario.sample_rate, len(scenario.channels), spec)
    ensemble = Ensemble(config, len(scenario.channels), spec, len(scenario.classes))
    known = fit_known(ensemble, windows, extract_features(ensemble, windows))
    equal = usual_equal_samples((signal.numpy() for signal in windows.signals()), spec)
    scale = ensemble.mean.numpy(), ensemble.deviation.numpy()
    gate = QualityGate(QualityConfig(), spec, len(scenario.channels), scale=scale, equal_samples=equal)
    questions = {one.name: one.question for one in impostors(windows.channels, windows.units)}
    if known.check.offset is not None:
        questions |= {WHITE: NO_OFFSET, WHITE_WITH_OFFSET: questions[WHITE]}
    return Trained(ensemble, known.check, known.config, gate, questions)


def imitations_of(segment: Segment, random: np.random.Generator) -> dict[str, Signal]:
    """Return everything that a sensor may deliver instead of a recording."""
    signal = segment.recording.signal.astype(np.float64)
    every = impostors(segment.recording.channels, segment.recording.units)
    return {one.name: one.imitate(signal, random) for one in every if one.question != UNLIKE} | {
        "clipped": clipped(signal)
    }


def clipped(signal: Signal) -> Signal:
    low, high = np.quantile(signal, (CLIPPED_SHARE / 2, 1 - CLIPPED_SHARE / 2), axis=1, keepdims=True)
    return np.clip(signal, low, high)


def played(signal: Signal, others: list[Signal], random: np.random.Generator) -> Signal:
    """Return the signal of another machine, sample by sample, with the level of this one in every channel."""
    other = others[random.integers(len(others))]
    other = other[np.arange(len(signal)) % len(other)]
    mean, deviation = other.mean(axis=1, keepdims=True), other.std(axis=1, keepdims=True)
    level = signal.std(axis=1, keepdims=True) / np.maximum(deviation, 1e-12)
    return np.asarray((other - mean) * level + signal.mean(axis=1, keepdims=True))


@torch.no_grad()
def count(trained: Trained, signal: Signal, name: str) -> tuple[int, int, int, int]:
    """Return how many windows a signal has, and how many are noticed, rejected by the gate, and named."""
    spec = trained.gate.spec
    missing = max(0, spec.length - signal.shape[1])
    samples = np.ascontiguousarray(np.pad(signal, ((0, 0), (0, missing)), mode="wrap"), dtype=np.float32)
    trained.gate.reset()
    rejected = torch.from_numpy(~trained.gate.check(samples).good)
    every = overlapping_windows(torch.from_numpy(samples), spec.length, spec.step)
    at_most = GENUINE_WINDOWS if name in (GENUINE, HEALTHY) else IMPOSTOR_WINDOWS
    some = evenly_spaced(len(every), at_most, torch.device("cpu"))
    question = trained.check.evidence(trained.ensemble.extract(every[some]), every[some])[QUESTION]
    asked, rejected = question > 0, rejected[some]
    noticed = asked if name.startswith((GENUINE, HEALTHY, OTHER)) else asked | rejected
    asks = [trained.known.question(number) for number in question.tolist()]
    named = asks.count(trained.questions[name]) if name in trained.questions else 0
    return len(some), int(noticed.sum()), int(rejected.sum()), named


def group_of(impostor: str) -> str:
    """Return the column of an impostor in the table."""
    for word in ("swapped", "rotated", OTHER):
        if word in impostor:
            return word
    return impostor


def table_of(folder: Path, counted: str = "windows") -> str:
    """Return the shares that are noticed of every set, over all left-out conditions, as Markdown."""
    totals: dict[str, dict[str, list[int]]] = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            for row in csv.DictReader(file):
                cell = totals.setdefault(group_of(row["impostor"]), {}).setdefault(row["set"], [0, 0])
                cell[0] += int(row["noticed"])
                cell[1] += int(row["windows"])
    sets = sorted({name for found in totals.values() for name in found})
    lines = [f"| {counted} | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for name in sorted(totals, key=lambda name: (name != HEALTHY, name != GENUINE)):
        found = totals[name]
        shares = (f"{found[one][0] / found[one][1]:.3f}" if one in found else "-" for one in sets)
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
