"""Does any training under the profile ``robust`` end at chance level? Many seeds, plain and adversarial.

    python benchmarks/trainings.py RECORDINGS --scenarios limerick_motor --objectives plain cal --seeds 50

RECORDINGS has one subfolder per scenario. The script prints worst, median and best seed: the accuracy on the training
windows, and that of the frozen model on the streams of all faults (unweighted mean over the stages). Models are not
calibrated, which would only train more models of the same kind.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from cgsa.bench.plan import Plan
from cgsa.bench.tables import Table
from cgsa.config import overlay
from cgsa.data.library import open_library
from cgsa.data.scenario import Library, Scenario
from cgsa.data.windows import Windows
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import run_stream
from cgsa.metrics.stream import score
from cgsa.online.source import FrozenSource
from cgsa.profile import Profile
from cgsa.workflow import stream_windows, train, training_windows

SETTINGS = Plan.load("robust-real").settings
"""The plan has the settings for slow sensors."""


@cache
def _prepared(name: str, data: Path) -> tuple[Scenario, Profile, Library, Windows]:
    torch.set_num_threads(1)
    scenario = Scenario.load(name)
    profile = Profile.load("robust", overlay(SETTINGS.get(name, {}), {"train": {"calibrate": False}}))
    library = open_library(data / name, scenario)
    return scenario, profile, library, training_windows(scenario, profile, library)


def train_and_score(name: str, data: Path, objective: str, seed: int) -> tuple[float, float]:
    """Return the accuracy of one trained model on its training windows and on the streams."""
    scenario, profile, library, windows = _prepared(name, data)
    [bundle] = train(scenario, profile, windows, objective=objective, seeds=[seed])
    with torch.no_grad():
        right = sum(
            int((bundle.network(x).argmax(dim=1) == windows.labels[where]).sum()) for where, x in windows.batches(4096)
        )
    streams = [stream_windows(bundle, scenario, fault, library) for fault in scenario.faults]
    traces = [run_stream(Diagnoser(FrozenSource(bundle)), stream, batch_size=256) for stream in streams]
    accuracies = [score(trace).average_accuracy for trace in traces]
    return right / len(windows), float(np.mean(accuracies))


def row(name: str, objective: str, found: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    """Return the table row of all seeds of one scenario and objective."""
    own, stream = np.array(found).T
    chance = 1 / len(Scenario.load(name).classes)

    def worst_median_best(values: np.ndarray) -> str:
        return f"{values.min():.3f}, {np.median(values):.3f}, {values.max():.3f}"

    return name, objective, f"{len(found)}", f"{chance:.3f}", worst_median_best(own), worst_median_best(stream)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scenarios", nargs="+", default=["limerick_motor"])
    parser.add_argument("--objectives", nargs="+", default=["plain", "cal"])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows = []
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for name in options.scenarios:
            for objective in options.objectives:
                jobs = [
                    pool.submit(train_and_score, name, options.data, objective, seed) for seed in range(options.seeds)
                ]
                rows.append(row(name, objective, [one.result() for one in jobs]))
                print(*rows[-1], flush=True)
    head = ("set", "objective", "seeds", "chance", "training windows: worst, median, best", "streams")
    print(Table("trainings", head, tuple(rows)).markdown())


if __name__ == "__main__":
    main()
