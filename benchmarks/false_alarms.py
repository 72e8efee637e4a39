"""How often does a healthy machine raise an alarm? A day of simulated machines at loads absent from training.

    cgsa simulate gearbox runs/data/gearbox; cgsa simulate motor runs/data/motor
    cgsa train gearbox runs/recommended/gearbox --data runs/data/gearbox
    cgsa train motor runs/recommended/motor --data runs/data/motor
    cgsa train gearbox runs/healthy/gearbox --data runs/data/gearbox --healthy-only
    cgsa train motor runs/healthy/motor --data runs/data/motor --healthy-only
    python -m benchmarks.false_alarms run runs/false_alarms runs/recommended runs/healthy --hours 24 --workers 2
    python -m benchmarks.false_alarms table runs/false_alarms

Every folder of models diagnoses the same signals, each model under the profile that it was trained under. Those of
``robust`` are the ten of its benchmark, one per trial; others have the names of the rigs:

    cgsa bench robust runs
    python -m benchmarks.false_alarms run runs/robust_alarms runs/models --hours 24 --workers 2

A run is five minutes of one healthy machine, commissioned at its start. Its torque moves between the end
of the training range and the highest load of the streams, and stays at each level for half a minute. The runs cycle
through the machines, the trials (one model each) and the assemblies: three from training and nine others. Every
finished run is a file, so an interrupted script resumes. The settings of the alarm were chosen on another simulated
day, with other seeds.

With the models of ``recommended``, an hour takes about 8 minutes of processor time, of which the simulation takes half.
Both folders above together take hardly more: a machine is simulated once, and models of healthy recordings are small.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from benchmarks.result_files import Result, measure_all, read_folder

from cgsa.bench.tables import Table
from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Segment, Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile, profile_of
from cgsa.rigs import RIGS
from cgsa.workflow import create_method

SECONDS = 300
HELD, RAMP = 30, 5
SPEEDS = {"gearbox": 1000, "motor": 2000}
"""Speed of the streams in rpm."""
TRAINED, ASSEMBLIES = 3, 12
TRIALS = 10
DAY = 2
"""Number of the simulated day; each day has its own seeds."""


@dataclass(frozen=True)
class HealthyRun:
    """One healthy machine for five minutes."""

    rig: str
    number: int
    models: tuple[Path, ...]
    """Folders of models; each has one that diagnoses this machine."""

    @property
    def specimen(self) -> int:
        """The assembly."""
        return 1 + self.number % ASSEMBLIES

    @property
    def trial(self) -> int:
        """The trial whose model diagnoses."""
        return self.number % TRIALS

    def file(self, folder: Path) -> Path:
        """Return the path of the result."""
        return folder / f"{self.rig}-{self.number:04d}.json"

    def model(self, folder: Path) -> Path:
        """Return the path of the model in a folder: one of several trials, or the only one of the rig."""
        several = folder / f"{self.rig}-plain-{self.trial}"
        return several if several.is_dir() else folder / self.rig

    def torque(self) -> dict[float, float]:
        """Return the torque set points (second -> Nm), all above the training range."""
        scenario = Scenario.load(self.rig)
        highest = max(level for part in scenario.online for _, level in part.levels(scenario.conditions))
        rng = np.random.default_rng([DAY, self.number, len(self.rig)])
        levels = rng.uniform(scenario.conditions[0].maximum, highest, SECONDS // (HELD + RAMP) + 1)
        curve: dict[float, float] = {}
        for place, level in enumerate(levels):
            begin = place * (HELD + RAMP)
            curve |= {float(begin): float(level), float(begin + HELD): float(level)}
        return curve


def simulate_and_diagnose(run: HealthyRun) -> Result:
    """Simulate one run, and diagnose it with every model."""
    rig = RIGS[run.rig]()
    # These seeds differ from those of the training runs and of the other day.
    recording = rig.drive(
        "health",
        torque=run.torque(),
        speed=SPEEDS[run.rig],
        seconds=SECONDS,
        specimen=run.specimen,
        seed=1000 * DAY + run.number,
    )
    return {
        "rig": run.rig,
        "specimen": run.specimen,
        "trial": run.trial,
        "seconds": SECONDS,
        "models": [diagnose_healthy(run.model(folder), recording) for folder in run.models],
    }


def diagnose_healthy(model: Path, recording: Recording) -> Result:
    """Return what a model says of a healthy machine."""
    bundle = ModelBundle.load(model)
    seen, profile = bundle.manifest, Profile.load(profile_of(bundle.manifest))
    windows = Windows([Segment(recording.select(seen.channels), 0, 0)], seen.window)
    method = create_method(bundle, profile.default_method, profile, healthy_start=True)
    decision = DecisionMaker(profile.decide, seen)
    alarms, standing, counts, ready_after = [], False, np.zeros(len(decision.states), int), None
    said = np.zeros(len(seen.classes), int)
    for where, x in windows.batches(profile.stream.batch_size):
        output = method.step(x)
        decided = decision.step(output.probabilities, output.evidence)
        ready = output.evidence["ready"]
        if ready_after is None and bool(ready.any()):
            ready_after = (where.start + int((~ready).sum())) * seen.window.step / seen.sample_rate
        said += np.bincount(output.probabilities[ready].argmax(dim=1).numpy(), minlength=len(said))
        counts += np.bincount(decided.state[ready].numpy(), minlength=len(counts))
        for place, raised in enumerate(decided.alarm.tolist()):
            if raised and not standing:
                second = (where.start + place) * seen.window.step / seen.sample_rate
                alarms.append({"second": second, "state": decision.states[int(decided.alarm_state[place])]})
            standing = raised
    return {
        "profile": profile_of(seen),
        "windows": len(windows),
        "commissioned_after": ready_after,
        "said": dict(zip(seen.classes, said.tolist(), strict=True)),
        "verdicts": dict(zip(decision.states, counts.tolist(), strict=True)),
        "alarms": alarms,
    }


def table_of(runs: Sequence[Result]) -> Table:
    """Return verdicts and alarms of the healthy machines, by profile, rig and kind of assembly."""
    rows = []
    found = [(one, model) for one in runs for model in one["models"]]
    for profile, rig, seen in product(sorted({model["profile"] for _, model in found}), SPEEDS, (True, False)):
        mine = [
            (one["seconds"], model)
            for one, model in found
            if (model["profile"], one["rig"], one["specimen"] <= TRAINED) == (profile, rig, seen)
        ]
        if not mine:
            continue
        windows = sum(sum(model["said"].values()) for _, model in mine)
        right = sum(next(iter(model["said"].values())) for _, model in mine)
        joined = sum(next(iter(model["verdicts"].values())) for _, model in mine)
        unknown = sum(model["verdicts"].get("unknown", 0) for _, model in mine)
        alarms = [alarm["state"] for _, model in mine for alarm in model["alarms"]]
        rows.append(
            (
                profile,
                rig,
                "trained" if seen else "unseen",
                f"{sum(seconds for seconds, _ in mine) / 3600:.2f}",
                f"{right / windows:.4f}",
                f"{joined / windows:.4f}",
                f"{unknown / windows:.4f}",
                f"{len(alarms)}" + (f" ({', '.join(alarms)})" if alarms else ""),
            )
        )
    head = (
        "profile",
        "rig",
        "assembly",
        "hours",
        "windows classified as healthy",
        "verdicts healthy",
        "verdicts unknown",
        "alarms",
    )
    return Table("false-alarms", head, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path, help="folder of the results")
    running.add_argument("models", type=Path, nargs="+", help="folders of models")
    running.add_argument("--hours", type=float, default=24.0)
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--rigs", nargs="+", choices=list(SPEEDS), default=list(SPEEDS))
    commands.add_parser("table").add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        count = round(options.hours * 3600 / SECONDS / len(options.rigs))
        runs = [HealthyRun(rig, number, tuple(options.models)) for number in range(count) for rig in options.rigs]
        measure_all(simulate_and_diagnose, {run.file(options.folder): run for run in runs}, options.workers)
    print(table_of(read_folder(options.folder)).markdown())


if __name__ == "__main__":
    main()
