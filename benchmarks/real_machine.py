"""The core on a real motor: plain and CAL training, frozen and adapting by CGSA, over six faults.

Needs the recordings, a folder with ``meta.json`` and one ``.npz`` a class and condition:

    python benchmarks/real_machine.py FOLDER --epochs 40 --trials 1
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.errors import DataError
from cgsa.metrics.stream import StreamScore, score
from cgsa.profiles import Profile
from cgsa.workflow import meet, stream_windows, train, training_windows

ROWS = {"plain": ("source",), "cal": ("source", "cgsa")}
"""Online methods that start from each objective."""


class SteadySet:
    """A library whose runs are the condition part of the file names, such as ``1200rpm_00lb``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._meta = json.loads((folder / "meta.json").read_text())
        except OSError as error:
            raise DataError(f"{folder}: no meta.json; expected a folder of real recordings") from error
        self._about = {entry["file"]: entry for entry in self._meta["files"]}
        self._read = lru_cache(maxsize=32)(self._read_file)

    def specimens(self) -> Sequence[int]:
        """Return one specimen: no machine was taken apart."""
        return (1,)

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:  # noqa: ARG002 - there is one of each
        """Read one run."""
        return self._read(f"{state}__{run}.npz")

    def _read_file(self, name: str) -> Recording:
        if name not in self._about:
            raise DataError(f"{self.folder}: no {name}; it has {', '.join(sorted(self._about)[:3])}, ...")
        with np.load(self.folder / name) as file:
            signal = (file["x"] * file["scale"]).T.astype(np.float32)
        channels = tuple(self._meta["channels"])
        conditions = {
            key: np.full(signal.shape[1], value, dtype=np.float32)
            for key, value in self._about[name]["condition"].items()
        }
        return Recording(
            np.ascontiguousarray(signal),
            float(self._meta["fs"]),
            channels,
            ("as recorded",) * len(channels),
            conditions,
            label=self._about[name]["class"],
            source=str(self.folder / name),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenario", type=Path, default=Path(__file__).parent / "scenarios" / "limerick.toml")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--trials", type=int, default=1)
    options = parser.parse_args()
    scenario, library = Scenario.load(options.scenario), SteadySet(options.folder)
    profile = Profile.load("paper", {"train": {"epochs": options.epochs, "step": 64}})
    windows = training_windows(scenario, profile, library)
    stages = [stage.name for stage in scenario.online]
    print(f"{len(windows)} training windows, {options.epochs} epochs, {options.trials} trials\n")
    print("| training | online | " + " | ".join(stages) + " | average | ECE | learnt from |")
    print("|---" * (len(stages) + 5) + "|")
    for objective, methods in ROWS.items():
        figures: dict[str, list[StreamScore]] = {method: [] for method in methods}
        for seed in range(options.trials):
            bundle = train(scenario, profile, windows, objective=objective, seed=seed)
            for fault in scenario.faults:
                stream = stream_windows(bundle, scenario, fault, library)
                for method in methods:
                    figures[method].append(score(meet(bundle, stream, method, profile, seed=seed)))
        for method, found in figures.items():
            print("| " + " | ".join([objective, method, *cells(found)]) + " |", flush=True)


def cells(found: Sequence[StreamScore]) -> list[str]:
    by_stage = np.mean([one.stage_accuracy for one in found], axis=0)
    rates = [one.acceptance_rate for one in found if one.acceptance_rate is not None]
    return [
        *(f"{value:.3f}" for value in by_stage),
        f"**{np.mean([one.average_accuracy for one in found]):.3f}**",
        f"{np.mean([one.ece for one in found]):.3f}",
        f"{np.mean(rates):.3f}" if rates else "",
    ]


if __name__ == "__main__":
    main()
