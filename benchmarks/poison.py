"""How much accuracy does a method lose to slow drift and poisoned windows? Measured afterwards, on clean data.

    python -m benchmarks.poison limerick_motor --data RECORDINGS/limerick_motor --workers 6
    python -m benchmarks.poison gearbox --data runs/data/gearbox --train-on 1 2 3
    python -m benchmarks.poison limerick_motor --data RECORDINGS/limerick_motor --profile robust --trials 2

*Drift*: over the stages of the stream, the healthy signal turns into that of a fault, so slowly that every batch
resembles the one before it, and then remains faulty; a method must not come to accept this as normal. *Poison*: in
the stream of the fault, one window in ten is replaced by noise of the machine's own level, by the signal ten times
too large, or by a window of another state. Either stream starts with the method, including its commissioning; the
machine is healthy then. The method and its decision then continue, without a reset, with the clean stream of the fault.
The script prints the stage-mean accuracies there, of windows and of verdicts joined over time; *most lost* is the
largest deficit against a fresh method.

Under the profile ``recommended`` nothing of a training is random, so a trial draws other poison only. Under ``robust``
every trial has its own model, and CGSA starts from the adversarial one. Every finished run is a file, so an interrupted
script resumes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from benchmarks.result_files import Result, measure_all
from torch import Tensor

from cgsa.bench.plan import Plan
from cgsa.bench.tables import Table
from cgsa.data.library import open_library
from cgsa.data.scenario import Library, Scenario
from cgsa.data.windows import Segment, Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.nn.bundle import ModelBundle
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod
from cgsa.profile import Profile
from cgsa.workflow import create_method, stream_windows, train, training_windows

SHARE = 0.1
"""Share of poisoned windows."""
METHODS_OF_PROFILE = {
    "recommended": ["source", "commissioning"],
    "robust": ["source", "reference", "cgsa", "tent_full", "adacontrast", "cotta", "roid"],
}
Batches = Iterator[tuple[slice, Tensor]]


def drifting_segments(scenario: Scenario, library: Library, fault: str) -> list[Segment]:
    """Return the stages blended from healthy to faulty at constant power, and then all stages faulty."""
    pairs = []
    for stage in scenario.online:
        for run in stage.runs:
            whole = [scenario.cut(library, state, stage, run=run, specimen=1) for state in (scenario.healthy, fault)]
            samples = min(recording.samples for recording in whole)
            pairs.append([recording.cut(0, samples) for recording in whole])
    total = sum(healthy.samples for healthy, _ in pairs)
    segments, begun = [], 0
    for healthy, faulty in pairs:
        share = np.linspace(begun / total, (begun + healthy.samples) / total, healthy.samples)
        blend = np.sqrt(1 - share) * healthy.signal + np.sqrt(share) * faulty.signal
        segments.append(Segment(replace(healthy, signal=blend.astype(np.float32)), 0, 0))
        begun += healthy.samples
    return [*segments, *(Segment(faulty, 0, 0) for _, faulty in pairs)]


def poisoned_batches(stream: Windows, others: Sequence[Windows], size: int, seed: int) -> Batches:
    """Return the batches of a stream with some windows replaced."""
    rng = np.random.default_rng(seed)
    level = stream.samples.std(dim=1)[:, None]
    for where, clean in stream.batches(size):
        # Batches are views of samples that the clean stream shares, too.
        x = clean.clone(memory_format=torch.contiguous_format)
        for place in np.flatnonzero(rng.random(len(x)) < SHARE):
            kind = rng.integers(3)
            if kind == 0:
                noise = rng.standard_normal(x.shape[1:]).astype(np.float32)
                x[place] = torch.from_numpy(noise) * level
            elif kind == 1:
                x[place] *= 10
            else:
                other = others[int(rng.integers(len(others)))]
                x[place] = other.gather(slice(int(rng.integers(len(other))), None))[0]
        yield where, x


def diagnose_batches(method: OnlineMethod, decision: DecisionMaker, batches: Batches) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted class of every window, and the decided state."""
    predicted, verdict = [], []
    for _, x in batches:
        output = method.step(x)
        predicted.append(output.probabilities.argmax(dim=1))
        verdict.append(decision.step(output.probabilities, output.evidence).state)
    return torch.cat(predicted).numpy(), torch.cat(verdict).numpy()


def stage_mean(predicted: np.ndarray, stream: Windows) -> float:
    """Return the unweighted mean over the stages of the share of correct windows."""
    right, stage = predicted == stream.labels.numpy(), stream.stages.numpy()
    return float(np.mean([right[stage == number].mean() for number in np.unique(stage)]))


def accuracies(
    start: Callable[[], OnlineMethod], bundle: ModelBundle, profile: Profile, before: Batches | None, clean: Windows
) -> tuple[float, float]:
    """Return the accuracies on the clean stream, optionally after another stream."""
    method, decision = start(), DecisionMaker(profile.decide, bundle.manifest)
    if before is not None:
        diagnose_batches(method, decision, before)
    predicted, verdict = diagnose_batches(method, decision, clean.batches(profile.stream.batch_size))
    return stage_mean(predicted, clean), stage_mean(verdict, clean)


@dataclass(frozen=True)
class PoisonRun:
    """One fault, method and trial."""

    scenario: str
    profile_name: str
    data: Path
    train_on: tuple[int, ...] | None
    folder: Path
    method: str
    fault: str
    trial: int

    @property
    def profile(self) -> Profile:
        """Settings; those of ``robust`` depend on the machine."""
        changes = Plan.load("robust-real").settings.get(self.scenario) if self.profile_name == "robust" else None
        return Profile.load(self.profile_name, changes)

    @property
    def objective(self) -> str:
        """Objective of the model that the method starts from."""
        return "cal" if "discriminator" in METHODS[self.method].needs else self.profile.default_objective

    @property
    def model(self) -> Path:
        """Path of the model."""
        seed = self.trial if self.profile_name == "robust" else 0
        return self.folder / "models" / f"{self.scenario}-{self.profile_name}-{self.objective}-{seed}"

    @property
    def file(self) -> Path:
        """Path of the result."""
        return self.folder / f"{self.scenario}-{self.profile_name}-{self.method}-{self.fault}-{self.trial}.json"

    def library(self) -> Library:
        """Return the recordings."""
        return open_library(self.data, Scenario.load(self.scenario), train_on=self.train_on)


def train_model(run: PoisonRun) -> Result:
    """Train the model of a run; return how long it took."""
    begun = time.process_time()
    scenario, profile = Scenario.load(run.scenario), run.profile
    windows = training_windows(scenario, profile, run.library(), objective=run.objective)
    [bundle] = train(scenario, profile, windows, objective=run.objective, seeds=[run.trial])
    bundle.save(run.model)
    return {"cpu_seconds": time.process_time() - begun}


def measure(run: PoisonRun) -> Result:
    """Measure a fresh method, and the same after drift and after poison."""
    scenario, profile, library = Scenario.load(run.scenario), run.profile, run.library()
    bundle, size = ModelBundle.load(run.model), profile.stream.batch_size
    clean = stream_windows(bundle, scenario, run.fault, library)
    others = [stream_windows(bundle, scenario, one, library) for one in scenario.faults if one != run.fault]
    drift = Windows(drifting_segments(scenario, library, run.fault), clean.spec)
    seed = 1000 * run.trial + scenario.faults.index(run.fault)
    befores = [None, drift.batches(size), poisoned_batches(clean, others or [clean], size, seed=seed)]

    def start() -> OnlineMethod:
        return create_method(bundle, run.method, profile, seed=run.trial, healthy_start=True)

    values = [accuracies(start, bundle, profile, before, clean) for before in befores]
    own = {"scenario": run.scenario, "profile": run.profile_name, "method": run.method}
    return {**own, "fault": run.fault, "trial": run.trial, "values": values}


def table_of(results: Sequence[Result]) -> Table:
    """Return the mean accuracies and the most that was lost, by machine and method."""
    found: dict[tuple[str, str], list[list[list[float]]]] = {}
    for result in results:
        found.setdefault((result["scenario"], result["method"]), []).append(result["values"])
    rows = []
    for name, runs in found.items():
        values = np.array(runs)  # (faults and trials, before, windows or verdicts)
        mean = values.mean(axis=0)
        lost = (values[:, :1] - values[:, 1:]).max(axis=0)
        cells = [f"{mean[before, way]:.3f}" for way in (0, 1) for before in range(3)]
        rows.append((*name, *cells[:3], f"{lost[:, 0].max():.3f}", *cells[3:], f"{lost[:, 1].max():.3f}"))
    ways = ("fresh", "after drift", "after poison", "most lost")
    head = ("set", "method", *(f"windows: {way}" for way in ways), *(f"verdicts: {way}" for way in ways))
    return Table("poison", head, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train-on", type=int, nargs="*", help="specimens of a simulated machine to train on")
    parser.add_argument("--profile", choices=list(METHODS_OF_PROFILE), default="recommended")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--methods", nargs="+", help="default: those of the published table")
    parser.add_argument("--faults", nargs="+", help="only these")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/poison"))
    options = parser.parse_args()
    train_on = None if options.train_on is None else tuple(options.train_on)
    runs = [
        PoisonRun(options.scenario, options.profile, options.data, train_on, options.output, method, fault, trial)
        for method in options.methods or METHODS_OF_PROFILE[options.profile]
        for fault in options.faults or Scenario.load(options.scenario).faults
        for trial in range(options.trials)
    ]
    models = {run.model.with_suffix(".json"): run for run in runs}
    measure_all(train_model, models, options.workers)
    print(table_of(measure_all(measure, {run.file: run for run in runs}, options.workers)).markdown())


if __name__ == "__main__":
    main()
