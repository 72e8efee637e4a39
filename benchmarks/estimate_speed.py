"""Estimate the speed of a machine from its signal, at speeds that were left out, and count how often it is right.

    python benchmarks/estimate_speed.py --data RECORDINGS

Every recorded speed is left out in turn. For each window at that speed, candidates from half the lowest to twice the
highest other speed, 0.5 % apart, are compared in two ways, on the fine spectrum of the signal and on that of its
envelope:

- *template*: correlation of the lines in orders with the mean lines of each class at the other speeds;
- *harmonics*: mean height of the first eight harmonics, less half of that between them.

An estimate is right within 3 %. It is confident if the best candidate is far above the best of those that are more than
5 % away. The shares of the most confident windows are those that the best limit would reach, if it were known.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgsa.bench.rotation.sets import steady_state_set
from cgsa.data.levels import is_speed
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.nn.spectra import ENVELOPE_FRAME, ENVELOPE_HOP

Array = npt.NDArray[np.float64]

SETS = {"bldc_iq": 2.4, "kat_units": 1.25, "limerick_motor": 1.0, "phone_motor2": 5.0}
"""Sets with a speed, and the seconds of a window: two or three fit into a recording."""
ORDERS = np.arange(0.25, 12.0, 0.02)
CANDIDATE_STEP = 0.005
RIGHT, ELSEWHERE = 0.03, 0.05
"""Relative errors: of an estimate that is right, and of candidates that compete with it."""
BACKGROUND = 25
"""Lines on either side over which the level of the noise is averaged."""
LEAST_ENVELOPE_RATE = 1000.0
SHARES = (1.0, 0.5, 0.25, 0.1)


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of a window above the noise around them."""

    state: str
    speed: float
    turns: float
    """Turns per second: the speed in Hz."""
    frequencies: Array
    heights: Array

    def in_orders(self, turns: float) -> Array:
        """Return the heights at multiples of a speed."""
        return np.asarray(np.interp(ORDERS * turns, self.frequencies, self.heights, right=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    print("| set | lines | estimate | windows | all | most confident half | quarter | tenth |")
    print("|---|---|---|---|---|---|---|---|")
    for name, seconds in SETS.items():
        for kind in ("spectrum", "envelope"):
            windows = list(windows_of(options.data / name, seconds, kind))
            for method in ("template", "harmonics") if windows else ():
                shares = " | ".join(f"{share:.2f}" for share in right_shares(windows, method))
                print(f"| {name} | {kind} | {method} | {len(windows)} | {shares} |", flush=True)


def windows_of(folder: Path, seconds: float, kind: str) -> Iterator[Lines]:
    """Yield the lines of disjoint windows of all recordings."""
    scenario = steady_state_set(folder).scenario
    library = SteadyStateLibrary(folder, assumed_rate=scenario.sample_rate)
    condition = next(one for one in scenario.conditions if is_speed(one))
    if kind == "envelope" and library.sample_rate < LEAST_ENVELOPE_RATE:
        return
    for file in library.files:
        recording = library.get(file.state, file.run, severity="H", specimen=file.specimen)
        speed, length = file.conditions[condition.name], round(seconds * recording.sample_rate)
        for begin in range(0, recording.samples - length + 1, length):
            signal = recording.signal[:, begin : begin + length].astype(np.float64)
            found = lines_of(signal, recording.sample_rate, kind)
            yield Lines(file.state, speed, speed / (1 if condition.unit == "Hz" else 60), *found)


def lines_of(signal: Array, rate: float, kind: str) -> tuple[Array, Array]:
    """Return frequencies, and the logarithm of the power there above its mean over the lines around."""
    if kind == "envelope":
        frames = np.lib.stride_tricks.sliding_window_view(signal, ENVELOPE_FRAME, axis=1)[:, ::ENVELOPE_HOP]
        power = np.abs(np.fft.rfft(frames * np.hanning(ENVELOPE_FRAME), axis=2)) ** 2
        signal, rate = np.sqrt(power[..., 1:].sum(axis=2)), rate / ENVELOPE_HOP
    centred = signal - signal.mean(axis=1, keepdims=True)
    power = (np.abs(np.fft.rfft(centred * np.hanning(signal.shape[1]), axis=1)) ** 2).mean(axis=0)
    logs = np.log(power / power.mean() + 1e-6)
    mean = np.ones(2 * BACKGROUND + 1) / (2 * BACKGROUND + 1)
    background = np.convolve(np.pad(logs, BACKGROUND, mode="edge"), mean, "valid")
    frequencies = np.asarray(np.fft.rfftfreq(signal.shape[1], 1 / rate), dtype=np.float64)
    return frequencies, np.asarray(logs - background)


def right_shares(windows: Sequence[Lines], method: str) -> list[float]:
    """Return the share of right estimates among all windows, and among the most confident ones."""
    right, confidence = [], []
    for speed in sorted({one.speed for one in windows}):
        others = [one for one in windows if one.speed != speed]
        turns = [one.turns for one in others]
        candidates = np.exp(np.arange(np.log(min(turns) / 2), np.log(2 * max(turns)), CANDIDATE_STEP))
        templates = templates_of(others)
        for one in (one for one in windows if one.speed == speed):
            lines = np.stack([one.in_orders(candidate) for candidate in candidates])
            scores = template_scores(lines, templates) if method == "template" else harmonic_scores(lines)
            best = candidates[scores.argmax()]
            elsewhere = scores[np.abs(np.log(candidates / best)) > ELSEWHERE]
            right.append(abs(best / one.turns - 1) <= RIGHT)
            confidence.append((scores.max() - elsewhere.max()) / (scores.std() + 1e-9))
    ordered = np.array(right)[np.argsort(confidence)[::-1]]
    return [float(ordered[: max(1, int(share * len(ordered)))].mean()) for share in SHARES]


def templates_of(windows: Sequence[Lines]) -> Array:
    """Return the mean lines in orders of each class, (classes, orders)."""
    by_state: Mapping[str, list[Array]] = {one.state: [] for one in windows}
    for one in windows:
        by_state[one.state].append(one.in_orders(one.turns))
    return normalised(np.stack([np.mean(found, axis=0) for found in by_state.values()]))


def template_scores(lines: Array, templates: Array) -> Array:
    """Return the correlation of each candidate with the class that suits it best."""
    return np.asarray((normalised(lines) @ templates.T).max(axis=1))


def harmonic_scores(lines: Array) -> Array:
    """Return how far the harmonics of each candidate stand out."""
    on, between = (np.searchsorted(ORDERS, np.arange(1, 9) + shift) for shift in (0.0, 0.5))
    return np.asarray(lines[:, on].mean(axis=1) - 0.5 * lines[:, between].mean(axis=1))


def normalised(lines: Array) -> Array:
    """Return the lines above the noise, with mean 0 and length 1."""
    above = np.clip(lines, 0, None)
    centred = above - above.mean(axis=1, keepdims=True)
    return np.asarray(centred / (np.linalg.norm(centred, axis=1, keepdims=True) + 1e-9))


if __name__ == "__main__":
    main()
