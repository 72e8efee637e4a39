"""Which impostors could be told at all? Trees that know the operating condition are asked, window by window.

    python -m benchmarks.impostors_oracle --data RECORDINGS --sets phone_motor2

For each impostor of ``benchmarks/impostors.py`` and each operating condition, trees are fitted to genuine windows and
imitations from the first half of every recording at that very condition, and asked about the second half. The limit is
that which calls 0.5 % of these genuine windows unknown. A model that was trained without the condition, and whose limit
is fixed in training, should not be expected to do better.

It writes rows and a table, as ``benchmarks/impostors.py`` does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from benchmarks.impostors import GENUINE, REAL, Row, Signal, imitations_of, segments_at, table_of, write_rows
from torch import Tensor

from cgsa.bench.rotation.sets import RotationSet, steady_state_set
from cgsa.data.windows import Windows, WindowSpec, overlapping_windows
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import imitation_shares
from cgsa.nn.trees import TreeHead
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.known_trees import fit_check_trees
from cgsa.offline.portfolio import choose_features
from cgsa.profile import Profile
from cgsa.workflow import training_spec

HALF_WINDOWS = 12
"""Windows of each half of a recording, evenly spaced."""
FALSE_SHARE = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=REAL)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/impostors/oracle"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        write_rows(options.output / f"{name}.csv", list(rows_of(steady_state_set(options.data / name))))
    table = table_of(options.output)
    (options.output / "table.md").write_text(table)
    print(table)


@torch.no_grad()
def rows_of(rotated: RotationSet) -> Iterator[Row]:
    """Yield the rows of every condition."""
    scenario, every = rotated.scenario, segments_at(rotated, rotated.points)
    spec = training_spec(every, Profile.load("recommended"))
    config = choose_features(scenario.sample_rate, len(scenario.channels), spec)
    ensemble = Ensemble(config, len(scenario.channels), spec, len(scenario.classes))
    ensemble.fit_channels(Windows(every, spec, conditions=scenario.condition_names).centred_samples)
    random = np.random.default_rng(1)
    genuine: dict[str, list[Tensor]] = {}
    imitated: dict[str, list[Tensor]] = {}
    for point in rotated.points:
        halves: dict[str, list[tuple[Tensor, Tensor]]] = {}
        for segment in segments_at(rotated, [point]):
            shown = {GENUINE: segment.recording.signal.astype(np.float64), **imitations_of(segment, random)}
            for name, signal in shown.items():
                halves.setdefault(name, []).append(features_of_halves(ensemble, spec, signal))
        first, second = zip(*halves.pop(GENUINE), strict=True)
        for name, found in halves.items():
            known, asked = (torch.cat(half) for half in zip(*found, strict=True))
            head = TreeHead(classes=2)
            fit_check_trees(head, torch.cat(first), known[:, None])
            genuine.setdefault(name, []).append(imitation_shares(head(torch.cat(second)))[:, 0])
            imitated.setdefault(name, []).append(imitation_shares(head(asked))[:, 0])
    for name, found_genuine in genuine.items():
        limit = torch.quantile(torch.cat(found_genuine), 1 - FALSE_SHARE)
        for point, shares in zip(rotated.points, imitated[name], strict=True):
            yield Row(rotated.name, rotated.point_name(point), name, len(shares), int((shares > limit).sum()), 0, 0)


def features_of_halves(ensemble: Ensemble, spec: WindowSpec, signal: Signal) -> tuple[Tensor, Tensor]:
    """Return the features of some windows of either half of a signal; those of a short one overlap."""
    samples = torch.from_numpy(np.ascontiguousarray(signal, dtype=np.float32))
    reach = max(samples.shape[1] // 2, min(spec.length, samples.shape[1]))
    first, second = some_windows(samples[:, :reach], spec), some_windows(samples[:, -reach:], spec)
    return torch.cat(ensemble.extract(first), dim=1), torch.cat(ensemble.extract(second), dim=1)


def some_windows(samples: Tensor, spec: WindowSpec, at_most: int = HALF_WINDOWS) -> Tensor:
    missing = max(0, spec.length - samples.shape[1])
    padded = torch.from_numpy(np.pad(samples.numpy(), ((0, 0), (0, missing)), mode="wrap"))
    every = overlapping_windows(padded, spec.length, spec.step)
    return every[evenly_spaced(len(every), at_most, torch.device("cpu"))]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
