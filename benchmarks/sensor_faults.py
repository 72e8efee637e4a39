"""Does the quality gate let sound recordings pass, and how soon does it find a broken sensor? On all there is.

    cgsa simulate gearbox runs/data/gearbox --specimens 3
    cgsa simulate motor runs/data/motor --specimens 3
    python benchmarks/sensor_faults.py --simulated runs/data --data RECORDINGS

The first table looks at every window of every recording, standstill and transients included, cut as for the models of
its set. None of them has a broken sensor, so every flag is a false one. The second breaks one channel of a sound
stretch of eight window lengths, which and where being drawn: at one sample, for some, or from there on for good. A
sensor that clips does so from the start, at the level beyond which such a share of the stretch's samples is. A sample
is broken where it differs from the sound one. Told are in how many of the tries there was a flag; how many windows it
came after the first one that holds a broken sample (median and most); and which share of the windows with a broken
sample was flagged. The third table says what the others do: which share of the windows with a broken sample passes the
gate, and is told to be of another class than the sound window is, by a model that is trained here on that set.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.stride_tricks import sliding_window_view

from cgsa.bench.plan import Plan
from cgsa.bench.tables import Table
from cgsa.data.library import open_library
from cgsa.data.readers import read_recording
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.scenario import Scenario
from cgsa.data.steady import SteadyFile
from cgsa.live.intake.quality import GOOD, WINDOW_REASONS, QualityConfig, WindowGate
from cgsa.profile import Profile
from cgsa.workflow import train, training_windows

SIMULATED = ("gearbox", "motor")
REAL = ("limerick_motor", "spectraquest_gearbox", "phone_motor2")
SETTINGS = Plan.load("robust-real").settings
TRIES = 40
"""Of each fault in each set."""
LENGTHS = 8
"""Of windows that a try looks at; the fault begins after two of them."""

Break = Callable[[FloatArray, int, float], None]
"""Breaks one channel from a sample on, in place; last comes the deviation of training."""


def becomes(value: float, samples: int | None) -> Break:
    """Return a fault that sets samples to a value; to no end where their number is not given."""

    def apply(x: FloatArray, begin: int, deviation: float) -> None:
        x[begin : None if samples is None else begin + samples] = value * deviation

    return apply


def clips(share: float) -> Break:
    """Return a fault that clips at the level beyond which such a share of the samples is."""

    def apply(x: FloatArray, _begin: int, _deviation: float) -> None:
        middle = np.median(x)
        level = np.quantile(np.abs(x - middle), 1 - share)
        np.clip(x, middle - level, middle + level, out=x)

    return apply


def sticks(x: FloatArray, begin: int, _deviation: float) -> None:
    """Hold the last sample for good."""
    x[begin:] = x[begin - 1]


FAULTS: dict[str, Break] = {
    "one NaN": becomes(np.nan, 1),
    "one infinity": becomes(np.inf, 1),
    "stuck for good": sticks,
    "silent for good": becomes(0.0, None),
    **{f"zero for {samples} samples": becomes(0.0, samples) for samples in (4, 8, 16, 64, 256)},
    **{f"clips {share:g} % of the samples": clips(share / 100) for share in (50, 25, 10, 5, 2, 1, 0.5)},
    "one spike of 60 deviations": becomes(60.0, 1),
    "at the rail of 60 deviations for good": becomes(60.0, None),
}


class SoundSet:
    """Recordings of one machine whose sensors are sound, and the gate of a model that learnt from them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._scenario = Scenario.load(name)
        self._library = open_library(folder, self._scenario)
        profile = Profile.load("robust", SETTINGS.get(name))
        self.spec = profile.window
        learnt = training_windows(self._scenario, profile, self._library)
        model = train(self._scenario, profile, learnt, objective="plain", seed=0)
        self._network = model.network
        signals = [segment.recording.signal for segment in self._scenario.training_segments(self._library)]
        whole = np.concatenate(signals, axis=1, dtype=np.float64)
        self.deviation = whole.std(axis=1)
        scale = whole.mean(axis=1), self.deviation
        ties = model.manifest.usual_equal_samples
        self._gate = WindowGate(QualityConfig(), self.spec, len(self.deviation), scale=scale, ties=ties)
        self._batch = profile.stream.batch_size

    def flags(self, signal: FloatArray) -> npt.NDArray[np.int8]:
        """Return the code of every window of a signal, which comes in batches."""
        self._gate.reset()
        found = []
        for begin in range(0, self.spec.count(signal.shape[1]), self._batch):
            first = begin * self.spec.step
            last = first + (self._batch - 1) * self.spec.step + self.spec.length
            found.append(self._gate.check(signal[:, first:last]).worst)
        return np.concatenate(found)

    def recordings(self) -> Iterator[Recording]:
        """Read every recording, whole."""
        for file in self._library.files:
            if isinstance(file, SteadyFile):
                whole = self._library.get(file.state, file.run, severity="H", specimen=1)
            else:
                whole = read_recording(file.path)
            yield whole.select(self._scenario.channels)

    def classes(self, signal: FloatArray, wanted: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """Return what the model says of windows."""
        windows = sliding_window_view(signal, self.spec.length, axis=1)[:, :: self.spec.step].transpose(1, 0, 2)
        with torch.inference_mode():
            said: npt.NDArray[np.int64] = self._network(torch.from_numpy(windows[wanted])).argmax(dim=1).numpy()
        return said

    def stretches(self, rng: np.random.Generator) -> Iterator[Recording]:
        """Cut sound stretches for the tries out of what a model is trained on, where the machine runs."""
        segments = self._scenario.training_segments(self._library)
        samples = LENGTHS * self.spec.length
        long_enough = [one.recording for one in segments if one.recording.samples >= samples]
        for place in rng.permutation(len(long_enough) * (TRIES // len(long_enough) + 1))[:TRIES]:
            recording = long_enough[place % len(long_enough)]
            begin = int(rng.integers(recording.samples - samples + 1))
            yield recording.cut(begin, begin + samples)


def false_flags(sets: Sequence[SoundSet]) -> Table:
    """Return how many windows of sound recordings are flagged."""
    rows = []
    for one in sets:
        recordings, told = 0, Counter[str]()
        for recording in one.recordings():
            recordings += 1
            told.update(WINDOW_REASONS[code] for code in one.flags(recording.signal).tolist())
        flagged = told.total() - told[GOOD]
        why = ", ".join(f"{reason} {count:,}" for reason, count in told.items() if reason != GOOD)
        rows.append(
            (one.name, f"{recordings}", f"{told.total():,}", f"{flagged:,}", f"{flagged / told.total():.4%}", why)
        )
    return Table("false-flags", ("recordings of", "files", "windows", "flagged", "share", "as"), tuple(rows))


@dataclass(frozen=True)
class Try:
    """What became of one broken channel."""

    delay: int | None
    """Windows from the first that holds a broken sample to the first flag; none where there is no flag."""
    touched: int
    """Windows that hold a broken sample."""
    told: Counter[str]
    """Of these windows."""
    misled: int
    """Of these windows, not flagged and told to be of another class than without the fault."""


def broken(one: SoundSet, stretch: Recording, fault: Break, rng: np.random.Generator) -> Try | None:
    """Break a channel and look at the windows that it touches; none where the signal stayed as it was."""
    channel = int(rng.integers(len(stretch.channels)))
    begin = 2 * one.spec.length + int(rng.integers(one.spec.length))
    signal = stretch.signal.copy()
    fault(signal[channel], begin, float(one.deviation[channel]))
    changed = signal[channel] != stretch.signal[channel]
    touched = sliding_window_view(changed, one.spec.length)[:: one.spec.step].any(axis=1)
    if not touched.any():
        return None
    codes = one.flags(signal)
    flagged = np.flatnonzero(touched & (codes > 0))
    told = Counter(WINDOW_REASONS[code] for code in codes[touched].tolist())
    passed = np.flatnonzero(touched & (codes == 0))
    misled = int((one.classes(signal, passed) != one.classes(stretch.signal, passed)).sum()) if len(passed) else 0
    return Try(int(flagged[0] - touched.argmax()) if len(flagged) else None, int(touched.sum()), told, misled)


def found_faults(sets: Sequence[SoundSet]) -> tuple[Table, Table]:
    """Return how many faults are found, how soon, and as what; and what those do that are not."""
    rows, misled = [], []
    for name, fault in FAULTS.items():
        cells, harm, told = [], [], Counter[str]()
        for one in sets:
            # The same stretches, channels and places for every fault.
            rng = np.random.default_rng(0)
            tries = [broken(one, stretch, fault, rng) for stretch in one.stretches(rng)]
            real = [each for each in tries if each is not None]
            delays = [each.delay for each in real if each.delay is not None]
            here = sum((each.told for each in real), Counter[str]())
            told += here
            share = 1 - here[GOOD] / here.total()
            after = f"after {np.median(delays):.0f}, at most {max(delays)}, " if delays else ""
            cells.append(f"{len(delays)} of {len(real)}, {after}{share:.1%}")
            harm.append(f"{sum(each.misled for each in real) / sum(each.touched for each in real):.2%}")
        flags = told.total() - told[GOOD]
        why = [f"{reason} {count / flags:.0%}" for reason, count in told.most_common() if reason != GOOD]
        rows.append((name, *cells, ", ".join(why)))
        misled.append((name, *harm))
    names = tuple(one.name for one in sets)
    found = Table("sensor-faults", ("fault", *names, "told as"), tuple(rows))
    return found, Table("sensor-faults-harm", ("fault", *names), tuple(misled))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", type=Path, help="folder with the recordings of the simulated machines")
    parser.add_argument("--data", type=Path, help="folder with the recordings of real machines")
    options = parser.parse_args()
    wanted = [(options.simulated, SIMULATED), (options.data, REAL)]
    sets = [SoundSet(name, folder / name) for folder, names in wanted if folder for name in names]
    print(false_flags(sets).markdown())
    for table in found_faults(sets):
        print(table.markdown())


if __name__ == "__main__":
    main()
