"""Which score shows a fault absent from training, at conditions absent from training? Every fault and condition.

    python -m benchmarks.unknown_scores --data RECORDINGS --rigs runs/data --workers 16

Every operating condition and every fault of a set with at least two faults is left out of training in turn. At that
condition, the windows of the left-out fault should score higher than those of the known states. The scores, from models
of the profile ``recommended`` with equal weights of the members:

- *checks*: the distance by which the model decides what is unknown (``nn/known.py``);
- *entropy* and *best class*: of the combined probabilities, and the negative logarithm of the largest of them;
- *disagreement*: how far the members differ, their mean divergence from the mean of their probabilities;
- *class distance*: Mahalanobis distance to the nearest class mean, averaged over the kinds of features as a logarithm;
- *healthy distance*: the same to the healthy class alone;
- *nearest recording*: distance to the nearest recording of the training, averaged in the same way.

An AUROC compares windows at one condition. A limit must suit all conditions. That of the class distance is the 0.995
quantile of known windows at trained conditions, each held out in turn. *False* is the share of healthy windows beyond
it, *found* that of the left-out fault. *Wide* is the same with the 0.999 quantile where whole levels and machines were
held out, too. The script also prints the share of the left-out fault that is named healthy.
Every finished fold is a file, so an interrupted script resumes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from benchmarks.impostors import REAL, RIGS, segments_at
from benchmarks.result_files import Result, measure_all
from benchmarks.unknown import auroc
from torch import Tensor

from cgsa.bench.rotation.sets import RotationSet, rig_set, steady_state_set
from cgsa.bench.tables import Table
from cgsa.data.windows import Windows
from cgsa.nn.ensemble import Ensemble, member_votes
from cgsa.offline.ensemble import extract_features, fit_ensemble
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.judging import operating_points
from cgsa.offline.known import fit_known, held_out_windows
from cgsa.offline.linear import LDA_SHRINKAGE, FeatureSpace
from cgsa.offline.portfolio import choose_features
from cgsa.profile import Profile
from cgsa.workflow import training_spec

MIN_FAULTS = 2
KNOWN_SHARE, WIDE_SHARE = 0.995, 0.999
WINDOWS = 160
"""Windows at a left-out condition, evenly spaced."""
SCORES = (
    "checks",
    "entropy",
    "best class",
    "disagreement",
    "class distance",
    "healthy distance",
    "nearest recording",
)
NAMED_HEALTHY, FALSE, FOUND = "named healthy", "false", "found"
SHARES = (NAMED_HEALTHY, FALSE, FOUND, f"{FALSE}, wide", f"{FOUND}, wide")
LEAST = 1e-12


@dataclass(frozen=True)
class Fold:
    """One left-out condition and fault."""

    folder: Path
    point: int
    label: int


def rotation_set(folder: Path) -> RotationSet:
    """Return the set in a folder."""
    return rig_set(folder.name, folder, simulated=False) if folder.name in RIGS else steady_state_set(folder)


class StateDistances:
    """Distances from the classes and recordings of a training, in every kind of features."""

    def __init__(self, features: TrainingFeatures) -> None:
        self._spaces = [FeatureSpace(kind) for kind in features.kinds]
        classes, self._labels = torch.unique(features.labels, return_inverse=True)
        recordings, place = torch.unique(features.recordings, return_inverse=True)
        label = torch.zeros_like(recordings).scatter(0, place, self._labels)
        self._whitening, self._classes, self._recordings, self._level = [], [], [], []
        for space in self._spaces:
            points = space.points
            of_recording = torch.stack([points[place == number].mean(dim=0) for number in range(len(recordings))])
            of_class = torch.stack([of_recording[label == number].mean(dim=0) for number in range(len(classes))])
            within, between = points - of_recording[place], of_recording - of_class[label]
            scatter = within.T @ within / len(points) + between.T @ between / max(1, len(recordings) - len(classes))
            level = LDA_SHRINKAGE * scatter.diagonal().mean()
            scatter = (1 - LDA_SHRINKAGE) * scatter
            scatter.diagonal().add_(level)
            self._whitening.append(torch.linalg.cholesky(torch.linalg.inv(scatter)))
            self._classes.append(of_class)
            self._recordings.append(of_recording)
            self._level.append(level)

    def __call__(self, kinds: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the logarithms of the distances from every class and from the nearest recording.

        Those from classes are given for each kind of features, (kinds, windows, classes).
        """
        classes, recordings = [], []
        for number, (space, kind) in enumerate(zip(self._spaces, kinds, strict=True)):
            scaled = (kind.double() - space.centre) / space.scale
            points, whitening = scaled @ space.axes, self._whitening[number]
            # What the axes do not span: the training has no scatter there.
            beside = (scaled.square().sum(dim=1) - points.square().sum(dim=1)).clamp(min=0)[:, None]
            own = torch.cdist(points @ whitening, self._classes[number] @ whitening).square()
            classes.append((own + beside / self._level[number]).clamp(min=LEAST).log() / 2)
            near = torch.cdist(points, self._recordings[number]).square() + beside
            recordings.append(near.amin(dim=1).clamp(min=LEAST).log() / 2)
        return torch.stack(classes), torch.stack(recordings).mean(dim=0)


@torch.no_grad()
def measure(fold: Fold) -> Result:
    """Return the scores and shares of one fold."""
    rotated = rotation_set(fold.folder)
    scenario, point = rotated.scenario, rotated.points[fold.point]
    every = segments_at(rotated, [one for one in rotated.points if one != point])
    kept = [segment for segment in every if segment.label != fold.label]
    spec = training_spec(kept, Profile.load("recommended"))
    ensemble = Ensemble(
        choose_features(scenario.sample_rate, len(scenario.channels), spec),
        len(scenario.channels),
        spec,
        len(scenario.classes) - 1,
    )
    windows = Windows(kept, spec, conditions=scenario.condition_names)
    features = extract_features(ensemble, windows)
    features.labels.sub_((features.labels > fold.label).long())
    fit_ensemble(ensemble, features, [])
    check = fit_known(ensemble, windows, features).check
    left = Windows(segments_at(rotated, [point]), spec)
    some = evenly_spaced(len(left), WINDOWS, left.device)
    out, labels = ensemble.extract(left.gather(some)), left.labels[some]
    votes = member_votes(ensemble.member_scores(out))
    scores, named = state_scores(votes), votes.mean(dim=1).argmax(dim=1)
    scores["checks"] = check(out)[0]
    classes, scores["nearest recording"] = StateDistances(features)(out)
    scores["class distance"] = classes.amin(dim=2).mean(dim=0)
    scores["healthy distance"] = classes[:, :, 0].mean(dim=0)
    unknown, healthy = labels == fold.label, labels == 0
    row: dict[str, str | float] = {
        "set": rotated.name,
        "left_out": rotated.point_name(point),
        "fault": scenario.classes[fold.label],
    }
    for name in SCORES:
        score = scores[name].double().numpy()
        row[name] = auroc(score[unknown.numpy()], score[~unknown.numpy()])
        row[f"{name}, healthy"] = auroc(score[unknown.numpy()], score[healthy.numpy()])
    row[NAMED_HEALTHY] = float((named == 0)[unknown].double().mean())
    points = operating_points(features)
    one_by_one = [(points != number, points == number) for number in range(int(points.max()) + 1)]
    limits = (
        class_limit(features, one_by_one, KNOWN_SHARE),
        class_limit(features, list(held_out_windows(features)), WIDE_SHARE),
    )
    for limit, suffix in zip(limits, ("", ", wide"), strict=True):
        beyond = (scores["class distance"] > limit).double()
        row[FALSE + suffix], row[FOUND + suffix] = float(beyond[healthy].mean()), float(beyond[unknown].mean())
    return row


def state_scores(votes: Tensor) -> dict[str, Tensor]:
    """Return the scores that depend on the members' log-probabilities alone, (windows, members, classes)."""
    combined = torch.log_softmax(votes.mean(dim=1), dim=1)
    mean = votes.exp().mean(dim=1, keepdim=True).clamp(min=LEAST)
    return {
        "entropy": -(combined.exp() * combined).sum(dim=1),
        "best class": -combined.amax(dim=1),
        "disagreement": (votes.exp() * (votes - mean.log())).sum(dim=2).mean(dim=1),
    }


def class_limit(features: TrainingFeatures, parts: Sequence[tuple[Tensor, Tensor]], share: float) -> float:
    """Return the class distance below which a share of the known windows is where they were held out."""
    found = []
    for rest, out in parts:
        kept = features.subset(rest)
        if len(set(kept.labels.tolist())) == len(set(features.labels.tolist())):
            classes, _ = StateDistances(kept)(features.subset(out).kinds)
            found.append(classes.amin(dim=2).mean(dim=0))
    return float(torch.quantile(torch.cat(found), share)) if found else float("inf")


def table_of(results: Sequence[Result]) -> Table:
    """Return the mean AUROC of every score, the worst in brackets, and the shares, by set."""
    rows = []
    for name in dict.fromkeys(result["set"] for result in results):
        found = [result for result in results if result["set"] == name]
        for against, suffix in (("known states", ""), ("healthy", ", healthy")):
            columns = [np.array([float(row[score + suffix]) for row in found]) for score in SCORES]
            cells = [f"{column.mean():.3f} ({column.min():.3f})" for column in columns]
            shares = ["" if suffix else f"{np.mean([float(row[share]) for row in found]):.3f}" for share in SHARES]
            rows.append((name, against, str(len(found)), *cells, *shares))
    return Table("unknown-scores", ("set", "against", "folds", *SCORES, *SHARES), tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rigs", type=Path)
    parser.add_argument("--sets", nargs="*", default=(*REAL, *RIGS))
    parser.add_argument("--every", type=int, default=1, help="take only every n-th fold")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/unknown_scores"))
    options = parser.parse_args()
    folds = {}
    for name in options.sets:
        parent = options.rigs if name in RIGS else options.data
        if parent is None or not (parent / name).is_dir():
            continue
        rotated = rotation_set(parent / name)
        count = len(rotated.scenario.faults)
        places = [(point, label) for point in range(len(rotated.points)) for label in range(1, 1 + count)]
        for point, label in places[:: options.every] if count >= MIN_FAULTS else ():
            folds[options.output / f"{name}-{point}-{label}.json"] = Fold(parent / name, point, label)
    print(table_of(measure_all(measure, folds, options.workers)).markdown())


if __name__ == "__main__":
    main()
