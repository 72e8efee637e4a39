"""Features of imitations, made from the training windows of an ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.data.windows import Windows
from cgsa.engines.side_by_side import side_by_side
from cgsa.nn.ensemble import Ensemble
from cgsa.offline.impostors import Impostor
from cgsa.offline.inspection import evenly_spaced

LEAST_WINDOWS, MOST_WINDOWS, SAMPLES = 40, 96, 70_000_000
"""Least and most windows that are imitated in every way, and about how many samples these may have together: their
features take most of the time that fitting takes."""


@dataclass(frozen=True, eq=False)
class Imitations:
    """Features of imitated windows."""

    features: Tensor
    """(windows, imitations, features)"""
    recordings: Tensor
    """Which recording each window was made from."""

    def made_from(self, recordings: Tensor) -> Tensor:
        """Return the features of the windows that were made from some recordings."""
        return self.features[torch.isin(self.recordings, recordings)]


@torch.no_grad()
def imitate(ensemble: Ensemble, windows: Windows, kinds: Sequence[Impostor]) -> Imitations:
    """Return the features of imitations of some training windows."""
    signals, length = list(windows.signals()), windows.spec.length
    wanted = SAMPLES // (len(kinds) * len(windows.channels) * length)
    wanted = min(max(wanted, LEAST_WINDOWS), MOST_WINDOWS)
    chosen = evenly_spaced(len(signals), wanted, torch.device("cpu")).tolist()
    # The same draws for every model, so that a training can be repeated.
    random = np.random.default_rng(0)

    def imitated() -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        for number in chosen:
            signal = signals[number].double().cpu().numpy()
            # Twice the length, of which a signal at half the rate is a window.
            missing = max(0, 2 * length - signal.shape[1])
            signal = np.pad(signal, ((0, 0), (0, missing)), mode="wrap")
            begins = evenly_spaced(signal.shape[1] - 2 * length + 1, -(-wanted // len(chosen)), torch.device("cpu"))
            for begin in begins.tolist():
                stretch = signal[:, begin : begin + 2 * length]
                batch = np.stack([kind.imitate(stretch, random)[:, :length] for kind in kinds])
                yield number, batch.astype(np.float32)

    def extract(one: tuple[int, npt.NDArray[np.float32]]) -> tuple[int, Tensor]:
        number, batch = one
        return number, torch.cat(ensemble.extract(torch.from_numpy(batch).to(windows.device)), dim=1)

    recordings, found = zip(*side_by_side(extract, imitated()), strict=True)
    return Imitations(torch.stack(found), torch.tensor(recordings, device=windows.device))
