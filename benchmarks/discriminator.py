"""Does the condition discriminator survive CAL training? With and without normalisation in its hidden layers.

A small model (windows of 256, hidden widths 256, 128, 64) is trained on one
assembly of the simulated gearbox. The script reads training data only.

    python benchmarks/discriminator.py --epochs 200 --seeds 2
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from cgsa.data.library import FolderLibrary
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.rigs.simulation import run_simulations, scenario_jobs
from cgsa.workflow import train, training_windows

NORMS = ("none", "batch")


def profile(norm: str, epochs: int) -> Profile:
    return Profile.load(
        "paper",
        {
            "window": {"length": 256},
            "network": {"hidden": [256, 128, 64], "tap": 64},
            "train": {"step": 64, "epochs": epochs, "discriminator": {"norm": norm}},
        },
    )


@torch.no_grad()
def row(bundle: ModelBundle, windows: Windows) -> list[str]:
    config = bundle.manifest.discriminator
    history = cast(list[dict[str, float]], bundle.training["history"])
    features = bundle.network.features(windows.gather(torch.arange(0, len(windows), 3)))
    discriminator = bundle.require_discriminator()
    return [
        config.norm if config else "",
        str(bundle.manifest.seed),
        f"{history[-1]['accuracy']:.3f}",
        f"{features.std():.1f}",
        ", ".join(f"{share:.2f}" for share in dead_shares(discriminator.mean, features)),
        f"{discriminator.response(features).std():.4f}",
    ]


def dead_shares(branch: nn.Sequential, x: Tensor) -> list[float]:
    """Return, per layer, the share of units that no window activates."""
    shares = []
    for layer in branch:
        x = layer(x)
        if isinstance(layer, nn.ReLU):
            shares.append(float((x.amax(dim=0) == 0).float().mean()))
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    scenario = Scenario.load("gearbox")
    with tempfile.TemporaryDirectory() as folder:
        run_simulations(scenario_jobs(scenario, Path(folder), 1), 2)
        windows = training_windows(scenario, profile("none", 1), FolderLibrary(folder))
    header = ["norm", "seed", "training accuracy", "deviation of features", "dead units", "deviation of the response"]
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    for norm in NORMS:
        for seed in range(options.seeds):
            [bundle] = train(scenario, profile(norm, options.epochs), windows, objective="cal", seeds=[seed])
            print("| " + " | ".join(row(bundle, windows)) + " |", flush=True)


if __name__ == "__main__":
    main()
