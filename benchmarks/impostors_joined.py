"""Is more noticed if evidence is joined over whole recordings? The telephone, every condition left out in turn.

    python benchmarks/impostors_joined.py --data RECORDINGS --sets phone_motor2

As in ``benchmarks/impostors.py``, one operating condition after the other is left out of training. Trees are fitted to
genuine windows and to the imitations that neither a direction nor the static offset tells apart on a telephone. The
evidence of a recording is the mean log-odds of an imitation over its windows. The limit is the largest evidence of a
genuine recording that was held out of the trees within training, with a margin.

It writes rows and a table, as ``benchmarks/impostors.py`` does; recordings are counted instead of windows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from benchmarks.impostors import (
    GENUINE,
    HEALTHY,
    WHITE,
    WHITE_WITH_OFFSET,
    Row,
    Signal,
    segments_at,
    table_of,
    write_rows,
)
from benchmarks.impostors_oracle import some_windows
from torch import Tensor

from cgsa.bench.rotation.sets import RotationSet, steady_state_set
from cgsa.data.windows import Windows, WindowSpec
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import imitation_shares
from cgsa.nn.trees import TreeHead
from cgsa.offline.ensemble import extract_features
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.imitations import Imitations, imitate
from cgsa.offline.impostors import impostors
from cgsa.offline.known import held_out_windows
from cgsa.offline.known_trees import fit_check_trees, held_out_shares
from cgsa.offline.portfolio import choose_features
from cgsa.profile import Profile
from cgsa.workflow import training_spec

KINDS = (WHITE, "half the sample rate", "0.8 times the sample rate")
RECORDINGS = "recordings"
LOG_MARGIN = 0.25
"""How much larger the odds of an imitation must be than those of held-out recordings, as a logarithm."""
WINDOWS = 24
"""Windows of a recording, evenly spaced."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=["phone_motor2"])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/impostors/joined"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        write_rows(options.output / f"{name}.csv", list(rows_of(steady_state_set(options.data / name))))
    table = table_of(options.output, RECORDINGS)
    (options.output / "table.md").write_text(table)
    print(table)


@torch.no_grad()
def rows_of(rotated: RotationSet) -> Iterator[Row]:
    """Yield the rows of every left-out condition."""
    scenario, random = rotated.scenario, np.random.default_rng(1)
    for point in rotated.points:
        segments = segments_at(rotated, [one for one in rotated.points if one != point])
        spec = training_spec(segments, Profile.load("recommended"))
        windows = Windows(segments, spec, conditions=scenario.condition_names)
        config = choose_features(scenario.sample_rate, len(scenario.channels), spec)
        ensemble = Ensemble(config, len(scenario.channels), spec, len(scenario.classes))
        features = extract_features(ensemble, windows)
        kinds = [one for one in impostors(windows.channels, windows.units) if one.name in KINDS]
        imitations = imitate(ensemble, windows, kinds)
        genuine = torch.cat(list(features.kinds), dim=1)
        centre = genuine.mean(dim=0)
        limits = joined_limits(features, genuine - centre, imitations, centre)
        head = TreeHead(1 + len(kinds))
        fit_check_trees(head, genuine - centre, imitations.features - centre)
        noticed: dict[str, list[bool]] = {}
        for segment in segments_at(rotated, [point]):
            signal = segment.recording.signal.astype(np.float64)
            shown = {GENUINE: signal, **({HEALTHY: signal} if segment.label == 0 else {})}
            shown |= {
                WHITE_WITH_OFFSET if one.name == WHITE else one.name: one.imitate(signal, random) for one in kinds
            }
            for name, imitation in shown.items():
                relative = features_of(ensemble, spec, imitation) - centre
                evidence = log_odds(imitation_shares(head(relative))).mean(dim=0)
                noticed.setdefault(name, []).append(bool((evidence > limits).any()))
        for name, found in noticed.items():
            yield Row(rotated.name, rotated.point_name(point), name, len(found), sum(found), 0, 0)


def joined_limits(features: TrainingFeatures, genuine: Tensor, imitations: Imitations, centre: Tensor) -> Tensor:
    """Return the limit of each imitation for the mean log-odds over a recording."""
    means = []
    for rest, out in held_out_windows(features):
        recordings = features.recordings[out]
        fitted = imitations.made_from(features.recordings[rest]) - centre
        shares, _ = held_out_shares(genuine[rest], fitted, genuine[out], fitted[:1], range(fitted.shape[1]))
        means += [log_odds(shares[recordings == one]).mean(dim=0) for one in sorted(set(recordings.tolist()))]
    return torch.stack(means).amax(dim=0) + LOG_MARGIN


def features_of(ensemble: Ensemble, spec: WindowSpec, signal: Signal) -> Tensor:
    """Return the features of some windows of a recording."""
    samples = torch.from_numpy(np.ascontiguousarray(signal, dtype=np.float32))
    return torch.cat(ensemble.extract(some_windows(samples, spec, WINDOWS)), dim=1)


def log_odds(shares: Tensor) -> Tensor:
    return torch.logit(shares.double(), eps=1e-4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
