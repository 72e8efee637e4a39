"""How long does training take on a GPU? One seed and several, stacked and by autograd.

    cgsa simulate gearbox runs/data/gearbox --specimens 3
    python benchmarks/training_speed.py runs/data/gearbox --assemblies 1 3 --seeds 1 10

Objective CAL with the settings of the profile `paper`: 200 epochs over the windows of one assembly or of several.
Seconds cover the whole training, from windows in GPU memory to bundles. Accuracies are those of the last epoch and of
the frozen models on the streams of all faults of the first assembly. `autograd` trains without stacking.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

import cgsa.offline.trainer
from cgsa.bench.tables import Table
from cgsa.data.library import FolderLibrary
from cgsa.data.scenario import Scenario
from cgsa.engines.precision import matmul_precision
from cgsa.metrics.stream import score
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import run_method, stream_windows, train, training_windows

COLUMNS = (
    "assemblies",
    "windows",
    "models",
    "by",
    "seconds",
    "us per step and model",
    "training accuracy",
    "on streams",
)


@contextmanager
def stacked_on(*devices: str) -> Iterator[None]:
    """Stack models on these devices only."""
    before = cgsa.offline.trainer.STACKED_ON
    cgsa.offline.trainer.STACKED_ON = devices  # type: ignore[assignment]
    try:
        yield
    finally:
        cgsa.offline.trainer.STACKED_ON = before


def timed_training(
    scenario: Scenario, profile: Profile, library: FolderLibrary, seeds: Sequence[int], device: torch.device
) -> tuple[list[ModelBundle], int, float]:
    """Train, and return the models, the number of windows, and the duration in seconds."""
    windows = training_windows(scenario, profile, library, device)
    begun = time.perf_counter()
    bundles = train(scenario, profile, windows, objective="cal", seeds=seeds)
    return bundles, len(windows), time.perf_counter() - begun


def mean_accuracies(
    bundles: Sequence[ModelBundle], scenario: Scenario, library: FolderLibrary, device: torch.device
) -> tuple[float, float]:
    """Return the accuracy in the last epoch of training and on the streams, averaged over all models."""
    history = [cast(list[dict[str, float]], bundle.training["history"])[-1]["accuracy"] for bundle in bundles]
    found = []
    for bundle in bundles:
        for fault in scenario.faults:
            stream = stream_windows(bundle, scenario, fault, library, device=device)
            found.append(score(run_method(bundle, stream, "source", Profile.load("paper"))).average_accuracy)
    return sum(history) / len(history), sum(found) / len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scenario", default="gearbox")
    parser.add_argument("--assemblies", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device, scenario, profile = torch.device(options.device), Scenario.load(options.scenario), Profile.load("paper")
    profile = replace(profile, train=replace(profile.train, epochs=options.epochs))
    rows = []
    with matmul_precision("high", device):
        # Compile for every shape first: compilation is not counted.
        brief = replace(profile, train=replace(profile.train, epochs=1))
        for count in options.seeds:
            timed_training(scenario, brief, FolderLibrary(options.data, train_on=[1]), range(count), device)
        trials = [(assemblies, count, "stack") for assemblies in options.assemblies for count in options.seeds]
        for assemblies, count, by in [*trials, (options.assemblies[0], 1, "autograd")]:
            library = FolderLibrary(options.data, train_on=range(1, assemblies + 1))
            with stacked_on(*(() if by == "autograd" else (device.type,))):
                bundles, windows, seconds = timed_training(scenario, profile, library, range(count), device)
            each = 1e6 * seconds / (options.epochs * (windows // profile.train.batch_size) * count)
            accuracies = (f"{value:.4f}" for value in mean_accuracies(bundles, scenario, library, device))
            rows.append((str(assemblies), f"{windows:,}", str(count), by, f"{seconds:.1f}", f"{each:.0f}", *accuracies))
            print(rows[-1], flush=True)
    print(Table("training", COLUMNS, tuple(rows)).markdown())


if __name__ == "__main__":
    main()
