"""Is a fault that is absent from training diagnosed as unknown? One fault at a time.

    python -m benchmarks.unknown limerick_motor --data RECORDINGS/limerick_motor --workers 6
    python -m benchmarks.unknown gearbox --data runs/data/gearbox --train-on 1 2 3
    python -m benchmarks.unknown limerick_motor --data RECORDINGS/limerick_motor --profile robust

The script leaves one fault at a time out of the training, and then runs the default method of the profile on the
streams of all faults, whose conditions are absent from training, too. It prints the AUROC of the distance, windows of
the left-out fault against all others, for single windows and joined over four window lengths as in the decision; the
share of windows with the verdict unknown: of healthy windows, of known faults, and of the left-out fault; and the share
of the left-out fault with the verdict healthy, which a user misses. The rest of it gets the name of another fault.

Every finished fault is a file, so an interrupted script resumes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from benchmarks.result_files import Result, measure_all
from scipy.stats import rankdata

from cgsa.bench.tables import Table
from cgsa.config import parse_assignments
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.metrics.accuracy import BoolArray, DoubleArray
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.smoothing import STATE_LENGTHS, running_mean
from cgsa.profile import Profile
from cgsa.workflow import create_method, segments_for, train, training_windows

LEFT_OUT, HEALTHY, KNOWN = "left out", "healthy", "known faults"


@dataclass(frozen=True)
class UnknownRun:
    """One left-out fault."""

    scenario: str
    profile_name: str
    settings: tuple[str, ...]
    data: Path
    train_on: tuple[int, ...] | None
    folder: Path
    fault: str
    seed: int

    @property
    def file(self) -> Path:
        """Path of the result."""
        return self.folder / f"{self.scenario}-{self.profile_name}-{self.fault}-{self.seed}.json"


def auroc(positive: DoubleArray, negative: DoubleArray) -> float:
    """Return the probability that a positive scores higher than a negative."""
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    return float((ranks.sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))


def measure(run: UnknownRun) -> Result:
    """Train without the fault, and diagnose the streams of all faults."""
    scenario, profile = Scenario.load(run.scenario), Profile.load(run.profile_name, parse_assignments([*run.settings]))
    library = open_library(run.data, scenario, train_on=run.train_on)
    faults = tuple(name for name in scenario.faults if name != run.fault)
    severities = {name: size for name, size in scenario.severities.items() if name in faults}
    known = replace(scenario, faults=faults, severities=severities)
    [bundle] = train(known, profile, training_windows(known, profile, library), seeds=[run.seed])
    distances: dict[str, list[DoubleArray]] = {}
    unknown: dict[str, list[BoolArray]] = {}
    missed: list[BoolArray] = []
    for streamed in scenario.faults:
        segments = segments_for(bundle.manifest.objective, scenario.stream_segments(library, streamed))
        stream = Windows(segments, bundle.manifest.window)
        distance, verdict = diagnose(bundle, profile, stream, run.seed)
        faulty = stream.labels.numpy() != 0
        for name, mask in ((HEALTHY, ~faulty), (LEFT_OUT if streamed == run.fault else KNOWN, faulty)):
            distances.setdefault(name, []).append(distance[mask])
            unknown.setdefault(name, []).append(np.asarray(verdict[mask] == len(known.classes)))
        if streamed == run.fault:
            missed.append(np.asarray(verdict[faulty] == 0))
    scores = {name: np.concatenate(parts) for name, parts in distances.items()}
    others = np.concatenate([score for name, score in scores.items() if name != LEFT_OUT])
    return {
        "scenario": run.scenario,
        "profile": run.profile_name,
        "fault": run.fault,
        "seed": run.seed,
        "auroc": [auroc(scores[LEFT_OUT][:, way], others[:, way]) for way in (0, 1)],
        "unknown": {name: float(np.concatenate(parts).mean()) for name, parts in unknown.items()},
        "missed": float(np.concatenate(missed).mean()),
    }


def diagnose(
    bundle: ModelBundle, profile: Profile, stream: Windows, seed: int
) -> tuple[DoubleArray, npt.NDArray[np.int64]]:
    """Return the distances of the windows of a stream, alone and joined, and the verdicts."""
    method = create_method(bundle, profile.default_method, profile, seed=seed, healthy_start=True)
    trace = run_stream(Diagnoser(method), stream, batch_size=profile.stream.batch_size)
    verdict = decide_afterwards(trace, DecisionMaker(profile.decide, bundle.manifest)).state.numpy()
    alone = torch.from_numpy(trace.evidence["distance"]).log()
    joined = running_mean(alone, round(STATE_LENGTHS / (stream.spec.step / stream.spec.length)))
    return torch.stack([alone.double(), joined.double()], dim=1).numpy(), verdict


def table_of(results: Sequence[Result]) -> Table:
    """Return one row per left-out fault."""
    rows = []
    for result in results:
        areas, unknown = result["auroc"], result["unknown"]
        shares = (f"{unknown[name]:.4f}" if name in unknown else "" for name in (HEALTHY, KNOWN, LEFT_OUT))
        rows.append(
            (
                result["scenario"],
                result["fault"],
                *(f"{area:.3f}" for area in areas),
                *shares,
                f"{result['missed']:.3f}",
            )
        )
    head = (
        "set",
        "left out",
        "AUROC, windows",
        "joined",
        "unknown: healthy",
        "known faults",
        "left out",
        "left out: healthy",
    )
    return Table("unknown", head, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train-on", type=int, nargs="*", help="specimens of a simulated machine to train on")
    parser.add_argument("--profile", choices=("recommended", "robust"), default="recommended")
    parser.add_argument("--seeds", type=int, default=1, help="of the profile robust; the other has none")
    parser.add_argument("--set", nargs="*", default=[], help="settings that differ from the profile")
    parser.add_argument("--faults", nargs="+", help="leave out only these")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/unknown"))
    options = parser.parse_args()
    train_on = None if options.train_on is None else tuple(options.train_on)
    place = (options.scenario, options.profile, tuple(options.set), options.data, train_on, options.output)
    faults = options.faults or Scenario.load(options.scenario).faults
    runs = [UnknownRun(*place, fault, seed) for fault in faults for seed in range(options.seeds)]
    print(table_of(measure_all(measure, {run.file: run for run in runs}, options.workers)).markdown())


if __name__ == "__main__":
    main()
