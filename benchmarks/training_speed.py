"""How long does training take on a GPU? One model and several seeds, as a stack and by autograd.

    cgsa simulate gearbox runs/data/gearbox --specimens 3
    python benchmarks/training_speed.py runs/data/gearbox --assemblies 1 3 --seeds 1 10

Objective CAL at the settings of the profile `paper`: 200 epochs over the scenario's windows of one assembly, or of
several. Seconds are those of the whole training, from windows in the memory of the GPU to bundles. Accuracies are of
the last epoch, and of the frozen models over the streams of all faults of the first assembly; `autograd` trains without
stacking.
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
from cgsa.workflow import meet, stream_windows, train_all, training_windows

COLUMNS = ("assemblies", "windows", "models", "by", "seconds", "us a step and model", "training accuracy", "on streams")


@contextmanager
def stacked_on(*devices: str) -> Iterator[None]:
    """Stack models on these devices alone."""
    before = cgsa.offline.trainer.STACKED_ON
    cgsa.offline.trainer.STACKED_ON = devices  # type: ignore[assignment]
    try:
        yield
    finally:
        cgsa.offline.trainer.STACKED_ON = before


def timed(
    scenario: Scenario, profile: Profile, library: FolderLibrary, seeds: Sequence[int], device: torch.device
) -> tuple[list[ModelBundle], int, float]:
    """Train, and return the models, how many windows there were, and how many seconds it took."""
    windows = training_windows(scenario, profile, library, device)
    begun = time.perf_counter()
    bundles = train_all(scenario, profile, windows, objective="cal", seeds=seeds)
    return bundles, len(windows), time.perf_counter() - begun


def judge(
    bundles: Sequence[ModelBundle], scenario: Scenario, library: FolderLibrary, device: torch.device
) -> tuple[float, float]:
    """Return accuracies on the training windows in the last epoch and over the streams, means over all models."""
    history = [cast(list[dict[str, float]], bundle.training["history"])[-1]["accuracy"] for bundle in bundles]
    found = []
    for bundle in bundles:
        for fault in scenario.faults:
            stream = stream_windows(bundle, scenario, fault, library, device=device)
            found.append(score(meet(bundle, stream, "source", Profile.load("paper"))).average_accuracy)
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
        # What is compiled once for a shape is not counted.
        brief = replace(profile, train=replace(profile.train, epochs=1))
        for count in options.seeds:
            timed(scenario, brief, FolderLibrary(options.data, train_on=[1]), range(count), device)
        trials = [(assemblies, count, "stack") for assemblies in options.assemblies for count in options.seeds]
        for assemblies, count, by in [*trials, (options.assemblies[0], 1, "autograd")]:
            library = FolderLibrary(options.data, train_on=range(1, assemblies + 1))
            with stacked_on(*(() if by == "autograd" else (device.type,))):
                bundles, windows, seconds = timed(scenario, profile, library, range(count), device)
            each = 1e6 * seconds / (options.epochs * (windows // profile.train.batch_size) * count)
            accuracies = (f"{value:.4f}" for value in judge(bundles, scenario, library, device))
            rows.append((str(assemblies), f"{windows:,}", str(count), by, f"{seconds:.1f}", f"{each:.0f}", *accuracies))
            print(rows[-1], flush=True)
    print(Table("training", COLUMNS, tuple(rows)).markdown())


if __name__ == "__main__":
    main()
