"""How much accuracy does a method lose to slow drift and poisoned windows? Measured afterwards, on clean data.

    python benchmarks/poison.py limerick_motor --data RECORDINGS/limerick_motor --trials 2
    python benchmarks/poison.py gearbox --data runs/data/gearbox --train-on 1 2 3

*Drift*: over the stages of the stream, the healthy signal turns into that of a fault, so slowly that every batch
resembles the one before it, and then remains faulty; a method must not come to accept this as normal. *Poison*: in
the stream of the fault, one window in ten is replaced by noise of the machine's own level, by the signal ten times
too large, or by a window of another state. Either stream starts with the method, including its commissioning. The
method and its decision then continue, without a reset, with the clean stream of the fault. The script prints the
stage-mean accuracies there, of windows and of verdicts joined over time; *most lost* is the largest deficit against a
fresh method. All methods start from models of the profile ``robust``; CGSA starts from the adversarial one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
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
SETTINGS = Plan.load("robust-real").settings
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train-on", type=int, nargs="*", help="specimens of a simulated machine to train on")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument(
        "--methods", nargs="+", default=["source", "reference", "cgsa", "tent_full", "adacontrast", "cotta", "roid"]
    )
    options = parser.parse_args()
    scenario = Scenario.load(options.scenario)
    profile = Profile.load("robust", SETTINGS.get(scenario.name))
    library = open_library(options.data, scenario, train_on=options.train_on)
    windows = training_windows(scenario, profile, library)
    size = profile.stream.batch_size
    found: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in options.methods}
    for trial in range(options.trials):
        wanted = {"cal" if "discriminator" in METHODS[name].needs else "plain" for name in options.methods}
        bundles = {kind: train(scenario, profile, windows, objective=kind, seeds=[trial])[0] for kind in sorted(wanted)}
        for number, fault in enumerate(scenario.faults):
            for name in options.methods:
                bundle = bundles["cal" if "discriminator" in METHODS[name].needs else "plain"]
                clean = stream_windows(bundle, scenario, fault, library)
                others = [stream_windows(bundle, scenario, one, library) for one in scenario.faults if one != fault]
                drift = Windows(drifting_segments(scenario, library, fault), clean.spec)

                def start(name: str = name, bundle: ModelBundle = bundle, seed: int = trial) -> OnlineMethod:
                    return create_method(bundle, name, profile, seed=seed)

                poison = poisoned_batches(clean, others or [clean], size, seed=1000 * trial + number)
                befores: list[Batches | None] = [None, drift.batches(size), poison]
                found[name].append([accuracies(start, bundle, profile, before, clean) for before in befores])
                print(fault, name, np.round(found[name][-1], 3).tolist(), flush=True)
    rows = []
    for name, runs in found.items():
        values = np.array(runs)  # (faults and trials, before, windows or verdicts)
        mean = values.mean(axis=0)
        lost = (values[:, :1] - values[:, 1:]).max(axis=0)
        cells = [f"{mean[before, way]:.3f}" for way in (0, 1) for before in range(3)]
        rows.append((name, *cells[:3], f"{lost[:, 0].max():.3f}", *cells[3:], f"{lost[:, 1].max():.3f}"))
    ways = ("fresh", "after drift", "after poison", "most lost")
    head = ("method", *(f"windows: {way}" for way in ways), *(f"verdicts: {way}" for way in ways))
    print(Table("poison", head, tuple(rows)).markdown())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
