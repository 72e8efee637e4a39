"""How far a fault absent from training is from the machine's healthy start, relative to limits for healthy machines.

    python -m benchmarks.unknown_start --data RECORDINGS --rigs runs/data --workers 16

Every operating condition of a set is left out of training in turn. There, later windows are compared with the healthy
start of their machine, its first second. The comparison knows no fault, so each of them is absent from its training.
*Any condition* is the limit of the profile ``recommended``: what healthy machines reach where levels, combinations of
levels and machines were held out of training. *Same condition* is what they reach at the condition of their start. Both
are without the factor of the profile, 1.5.

A cell has the share of recordings of faults whose mean distance is beyond 1, 1.25 and 1.5 times the limit. *Healthy* is
the largest mean of a healthy recording, relative to the limit. Other recordings of the machine at the same condition,
such as other runs or places of the sensor, are compared with the start, too.
Every finished fold is a file, so an interrupted script resumes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from benchmarks.impostors import REAL, RIGS, segments_at
from benchmarks.result_files import Result, measure_all
from benchmarks.unknown_scores import rotation_set
from torch import Tensor

from cgsa.bench.tables import Table
from cgsa.data.windows import Windows
from cgsa.nn.change import HealthyMetrics
from cgsa.nn.ensemble import Ensemble
from cgsa.offline.ensemble import extract_features
from cgsa.offline.healthy_distance import farthest, fit_metrics, held_out_distances, shares_samples
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.judging import REFERENCE_SECONDS
from cgsa.offline.own_start import compared_kinds, healthy_rows
from cgsa.offline.parts import held_out_parts
from cgsa.offline.portfolio import choose_features
from cgsa.profile import Profile
from cgsa.workflow import training_spec

FACTORS = (1.0, 1.25, 1.5)
LIMITS = ("any condition", "same condition")


@dataclass(frozen=True)
class Fold:
    """One left-out condition."""

    folder: Path
    point: int


@torch.no_grad()
def measure(fold: Fold) -> Result:
    """Return for every recording its class and its mean distance relative to each limit."""
    rotated = rotation_set(fold.folder)
    scenario, point = rotated.scenario, rotated.points[fold.point]
    kept = segments_at(rotated, [one for one in rotated.points if one != point])
    spec, channels = training_spec(kept, Profile.load("recommended")), len(scenario.channels)
    config = choose_features(scenario.sample_rate, channels, spec)
    ensemble = Ensemble(config, channels, spec, len(scenario.classes))
    trained = Windows([one for one in kept if one.label == 0], spec, conditions=scenario.condition_names)
    kinds = compared_kinds(config)
    healthy = healthy_rows(extract_features(ensemble, trained), kinds)
    metrics = HealthyMetrics([kind.shape[1] for kind in healthy.kinds])
    limits = held_out_limits(metrics, healthy, spec.length / scenario.sample_rate)
    fit_metrics(metrics, healthy)
    left, found = segments_at(rotated, [point]), []
    used = 1 + round(REFERENCE_SECONDS * scenario.sample_rate / spec.step)
    for machine in sorted({one.machine for one in left if one.label == 0} if limits is not None else ()):
        own = sorted((one for one in left if one.machine == machine), key=lambda one: one.label)
        rows = []
        for one in own:
            windows = Windows([one], spec)
            features = ensemble.extract(windows.gather(slice(0, len(windows))))
            rows.append(torch.cat([features[kind] for kind in kinds], dim=1))
        start = rows[0][:used].mean(dim=0)
        # Windows that share samples with the start are left out.
        rows[0] = rows[0][used + spec.length // spec.step :]
        for one, later in zip(own, rows, strict=True):
            if len(later) and limits is not None:
                found.append([one.label, *(metrics.log_distance(later, start).mean() - limits).exp().tolist()])
    return {"set": rotated.name, "left_out": rotated.point_name(point), "recordings": found}


def held_out_limits(metrics: HealthyMetrics, healthy: TrainingFeatures, window_seconds: float) -> Tensor | None:
    """Return the logarithms of both limits; None if recordings are too short to compare their halves."""
    moved: list[Tensor] = []
    steady: list[Tensor] = []
    for part in held_out_parts(healthy.conditions, healthy.machines):
        rest = healthy.subset(~shares_samples(healthy, part.mask))
        if len(rest):
            fit_metrics(metrics, rest)
            distances = held_out_distances(metrics, rest, healthy.subset(part.mask), window_seconds)
            moved += distances.own or distances.general
            steady += distances.own_steady
    if not moved or not steady:
        return None
    same = farthest(steady)
    return torch.stack([torch.maximum(farthest(moved), same), same])


def table_of(results: Sequence[Result]) -> Table:
    """Return the shares by set."""
    head = [name for limit in LIMITS for name in (f"{limit}: healthy", f"{limit}: faults beyond 1 / 1.25 / 1.5")]
    rows = []
    for name in dict.fromkeys(result["set"] for result in results):
        own = [result["recordings"] for result in results if result["set"] == name]
        found = [one for recordings in own for one in recordings]
        cells = []
        for place in (1, 2):
            healthy, faulty = ([one[place] for one in found if (one[0] == 0) == well] for well in (True, False))
            shares = (f"{fmean(value > factor for value in faulty):.2f}" for factor in FACTORS if faulty)
            cells += [f"{max(healthy):.2f}" if healthy else "", " / ".join(shares)]
        rows.append((name, f"{sum(map(bool, own))} of {len(own)}", *cells))
    return Table("unknown-start", ("set", "conditions", *head), tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rigs", type=Path)
    parser.add_argument("--sets", nargs="*", default=(*REAL, *RIGS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/unknown_start"))
    options = parser.parse_args()
    folds = {}
    for name in options.sets:
        parent = options.rigs if name in RIGS else options.data
        if parent is not None and (parent / name).is_dir():
            for point in range(len(rotation_set(parent / name).points)):
                folds[options.output / f"{name}-{point}.json"] = Fold(parent / name, point)
    print(table_of(measure_all(measure, folds, options.workers)).markdown())


if __name__ == "__main__":
    main()
