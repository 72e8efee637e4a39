"""Which front-end generalises to a condition left out of training, and to a later time? Uses training data only.

The script leaves out each training level between the lowest and the highest in turn, trains a small network on the
others, and tests it on that level. If there are several conditions, the first one counts. It then leaves out the last
quarter of every recording in the same way. It prints both accuracies and their mean, the criterion for the choice.

    python benchmarks/left_out.py RECORDINGS --scenarios limerick_motor spectraquest_gearbox phone_motor2

RECORDINGS has one subfolder per scenario. ``bands:24`` is the front-end ``bands`` with another number of bands.
Envelope spectra and cepstra exist only in this script, since they did not improve the accuracy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d

from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.nn.frontends import FRONTENDS, BandFrontend, SpectrumFrontend
from cgsa.offline.folds import latest_fold
from cgsa.profile import Profile
from cgsa.workflow import train

STATE_LENGTHS = {"phone_motor2": 128}
"""Window lengths for slow sensors; all other scenarios use the paper's length."""
TRIED = ("raw", "spectrum", "bands:96", "bands:48", "bands:24", "bands:12", "bands:6", "magnitudes")
REJECTED = ("envelope", "bands+envelope", "cepstrum", "bands+cepstrum")
CEPSTRA = 24
"""Number of cepstral coefficients kept, from the lowest quefrency up."""


class Candidate(SpectrumFrontend):
    """Several feature sets of a window, concatenated."""

    feature_sets: ClassVar[tuple[str, ...]]

    def count(self, length: int) -> int:
        """Return the features of one channel."""
        bands = min(BandFrontend.BANDS, length // 4)
        return sum(
            {"bands": bands, "envelope": bands, "cepstrum": min(CEPSTRA, bands)}[kind] for kind in self.feature_sets
        )

    def features(self, x: Tensor) -> Tensor:
        """Return unscaled features, (windows, channels, features)."""
        return torch.cat([getattr(self, f"_{kind}")(x) for kind in self.feature_sets], dim=-1)

    def _bands(self, x: Tensor) -> Tensor:
        return adaptive_avg_pool1d(super().features(x), min(BandFrontend.BANDS, x.shape[-1] // 4))

    def _envelope(self, x: Tensor) -> Tensor:
        """Return bands of the envelope spectrum: how often impacts excite the upper three quarters of the spectrum."""
        length = x.shape[-1]
        spectrum = torch.fft.fft(self.scale(x))
        # One side of the spectrum, doubled, is the analytic signal of the remaining band.
        spectrum[..., : length // 8] = 0
        spectrum[..., length // 2 + 1 :] = 0
        envelope = 2 * torch.fft.ifft(spectrum).abs()
        envelope = envelope - envelope.mean(dim=-1, keepdim=True)
        magnitude = torch.fft.rfft(envelope * self.taper).abs()[..., 1 : length // 4 + 1]
        return adaptive_avg_pool1d(torch.log(magnitude + self._floor), min(BandFrontend.BANDS, length // 4))

    def _cepstrum(self, x: Tensor) -> Tensor:
        """Return the cepstrum: the shape of the spectrum without its fine lines."""
        ripples: Tensor = torch.fft.irfft(super().features(x))
        return ripples[..., 1 : 1 + min(CEPSTRA, x.shape[-1] // 4)]


for _name in REJECTED:
    FRONTENDS.register(_name)(type(_name, (Candidate,), {"feature_sets": tuple(_name.split("+"))}))


def profile(frontend: str, length: int, epochs: int) -> Profile:
    return Profile.load(
        "paper",
        {
            "window": {"length": length},
            "network": {"frontend": frontend, "hidden": [256, 64], "tap": 64, "dropout": 0.2},
            "train": {"epochs": epochs},
            "objective": {"plain": {"lr": 3e-3, "weight_decay": 1e-2, "schedule": "one_cycle", "label_smoothing": 0.1}},
        },
    )


def levels(segments: Sequence[Segment], condition: str) -> dict[int, float]:
    """Return the level of every part: the mean of its condition."""
    found: dict[int, list[float]] = {}
    for segment in segments:
        found.setdefault(segment.stage, []).append(float(segment.recording.conditions[condition].mean()))
    return {part: round(float(np.mean(values)), 1) for part, values in found.items()}


@torch.no_grad()
def accuracy(network: torch.nn.Module, windows: Windows) -> float:
    right = [int((network(x).argmax(dim=1) == windows.labels[where]).sum()) for where, x in windows.batches(2048)]
    return sum(right) / len(windows)


def left_out(scenario: Scenario, folder: Path, frontend: str, epochs: int) -> tuple[float, float]:
    """Return the mean accuracy at the inner levels, and that in the last quarter, of models trained without them."""
    name, _, bands = frontend.partition(":")
    length = STATE_LENGTHS.get(scenario.name, 1024)
    spec = WindowSpec(length, length // 16)
    library = open_library(folder / scenario.name, scenario)
    segments = [segment.centred() for segment in scenario.training_segments(library)]
    level_of = levels(segments, scenario.condition_names[0])
    everything = Windows(segments, spec, conditions=scenario.condition_names)
    found = []
    with patch.object(BandFrontend, "BANDS", int(bands or BandFrontend.BANDS)):
        for level in sorted(set(level_of.values()))[1:-1]:
            kept = [segment for segment in segments if level_of[segment.stage] != level]
            rest = [segment for segment in segments if level_of[segment.stage] == level]
            windows = Windows(kept, spec, conditions=scenario.condition_names)
            [bundle] = train(scenario, profile(name, length, epochs), windows, objective="plain")
            found.append(accuracy(bundle.network, Windows(rest, spec)))
        last = latest_fold(everything)
        [bundle] = train(scenario, profile(name, length, epochs), everything.subset(last.rest), objective="plain")
        later = accuracy(bundle.network, everything.subset(last.held_out))
    return float(np.mean(found)), later


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--scenarios", nargs="+", default=["limerick_motor", "spectraquest_gearbox", "phone_motor2"])
    parser.add_argument("--frontends", nargs="+", default=(*TRIED, *REJECTED))
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    print("| front-end | " + " | ".join(options.scenarios) + " |")
    print("|---" * (len(options.scenarios) + 1) + "|")
    for frontend in options.frontends:
        cells = []
        for name in options.scenarios:
            level, later = left_out(Scenario.load(name), options.recordings, frontend, options.epochs)
            cells.append(f"{level:.3f}, {later:.3f}: {(level + later) / 2:.3f}")
        print("| " + " | ".join([frontend, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
