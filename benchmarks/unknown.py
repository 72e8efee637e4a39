"""Is a fault that is absent from training diagnosed as unknown? One fault at a time.

    python benchmarks/unknown.py limerick_motor --data RECORDINGS/limerick_motor
    python benchmarks/unknown.py gearbox --data runs/data/gearbox

The script leaves one fault at a time out of the training under the profile ``robust``, and then runs the method
``reference`` on the streams of all faults. It prints the AUROC of the distance, windows of the left-out fault against
all others, for single windows and joined over four window lengths as in the decision; and the share of windows with
the verdict unknown: of healthy windows (all at conditions absent from training), of known faults, and of the left-out
fault.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata

from cgsa.config import parse_assignments
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.metrics.accuracy import BoolArray, DoubleArray
from cgsa.nn.smoothing import STATE_LENGTHS, running_mean
from cgsa.online.reference import Reference
from cgsa.profile import Profile
from cgsa.workflow import segments_for, train, training_windows


def auroc(positive: DoubleArray, negative: DoubleArray) -> float:
    """Return the probability that a positive scores higher than a negative."""
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    return float((ranks.sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train-on", type=int, nargs="*", help="specimens of a simulated machine to train on")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", nargs="*", default=[], help="settings that differ from the profile")
    options = parser.parse_args()
    scenario, profile = Scenario.load(options.scenario), Profile.load("robust", parse_assignments(options.set))
    library = open_library(options.data, scenario, train_on=options.train_on)
    print("| left out | seed | AUROC, windows | joined | unknown: healthy | known faults | left out |")
    print("|---|---|---|---|---|---|---|")
    for fault in scenario.faults:
        faults = tuple(name for name in scenario.faults if name != fault)
        severities = {name: size for name, size in scenario.severities.items() if name in faults}
        known = replace(scenario, faults=faults, severities=severities)
        windows = training_windows(known, profile, library, options.device)
        for seed in range(options.seeds):
            [bundle] = train(known, profile, windows, seeds=[seed])
            found: dict[str, list[DoubleArray]] = {"unknown": [], "healthy": [], "known": []}
            count = round(STATE_LENGTHS / (bundle.manifest.window.step / bundle.manifest.window.length))
            called_unknown: dict[str, list[BoolArray]] = {"unknown": [], "healthy": [], "known": []}
            for streamed in scenario.faults:
                segments = segments_for(bundle.manifest.objective, scenario.stream_segments(library, streamed))
                stream = Windows(segments, bundle.manifest.window, device=options.device)
                method = Reference(bundle, profile.method_settings("reference"), device=options.device)
                trace = run_stream(Diagnoser(method), stream, batch_size=profile.stream.batch_size)
                verdict = decide_afterwards(trace, DecisionMaker(profile.decide, bundle.manifest)).state.numpy()
                faulty = stream.labels.cpu().numpy() != 0
                alone = torch.from_numpy(trace.evidence["distance"]).log()
                distances = torch.stack([alone.double(), running_mean(alone, count)], dim=1).numpy()
                for name, mask in (("healthy", ~faulty), ("unknown" if streamed == fault else "known", faulty)):
                    found[name].append(distances[mask])
                    called_unknown[name].append(np.asarray(verdict[mask] == len(known.classes)))
            scores = {name: np.concatenate(parts) for name, parts in found.items() if parts}
            shares = {name: float(np.concatenate(parts).mean()) for name, parts in called_unknown.items() if parts}
            others = np.concatenate([scores[name] for name in ("healthy", "known") if name in scores])
            areas = " | ".join(f"{auroc(scores['unknown'][:, way], others[:, way]):.3f}" for way in (0, 1))
            print(
                f"| {fault} | {seed} | {areas} | {shares['healthy']:.4f} "
                f"| {shares.get('known', float('nan')):.4f} | {shares['unknown']:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
