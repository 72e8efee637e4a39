"""Does the quality gate accept sound recordings, and how soon does it detect a sensor fault? On all data sets.

    cgsa simulate gearbox runs/data/gearbox --specimens 3
    cgsa simulate motor runs/data/motor --specimens 3
    python benchmarks/sensor_faults.py --simulated runs/data --data RECORDINGS

The first table covers every window of every recording, including standstill and transients, cut as for the models of
its data set. No sensor is faulty there, so every flag is a false one. The second table corrupts one random channel of
a sound segment of eight window lengths, from a random position: one sample, several samples, or all samples to the
end. Clipping starts at the beginning of the segment, at the level that the given share of its samples exceeds. A
sample is corrupt if it differs from the sound one. The table gives the number of trials with a flag; the number of
windows from the first window with a corrupt sample to the flag (median and maximum); and the share of windows with a
corrupt sample that are flagged. The third table gives the harm of the others: the share of windows with a corrupt
sample that pass the gate and that a model, trained here on the data set, assigns to another class than the
sound window.
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
from cgsa.data.dataset import DataSet
from cgsa.data.library import open_library
from cgsa.data.readers import read_recording
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.scenario import Scenario
from cgsa.data.steady_state import SteadyStateFile
from cgsa.errors import ConfigError
from cgsa.live.intake.quality import GOOD, WINDOW_REASONS, QualityConfig, QualityGate
from cgsa.profile import Profile
from cgsa.workflow import train, training_windows

SIMULATED = ("gearbox", "motor")
REAL = ("limerick_motor", "spectraquest_gearbox", "phone_motor2")
SETTINGS = Plan.load("robust-real").settings
TRIALS = 40
"""Trials per fault and data set."""
STATE_LENGTHS = 8
"""Length of a segment in window lengths; the fault begins after two of them."""

Corruption = Callable[[FloatArray, int, float], None]
"""Corrupts one channel in place: samples, first sample of the fault, standard deviation in training."""


def set_to(value: float, samples: int | None) -> Corruption:
    """Return a fault that sets this many samples to a value; all samples to the end if ``samples`` is None."""

    def apply(x: FloatArray, begin: int, deviation: float) -> None:
        x[begin : None if samples is None else begin + samples] = value * deviation

    return apply


def clip_share(share: float) -> Corruption:
    """Return a fault that clips at the level that this share of the samples exceeds."""

    def apply(x: FloatArray, _begin: int, _deviation: float) -> None:
        middle = np.median(x)
        level = np.quantile(np.abs(x - middle), 1 - share)
        np.clip(x, middle - level, middle + level, out=x)

    return apply


def stick(x: FloatArray, begin: int, _deviation: float) -> None:
    """Hold the last sample to the end."""
    x[begin:] = x[begin - 1]


FAULTS: dict[str, Corruption] = {
    "one NaN": set_to(np.nan, 1),
    "one infinity": set_to(np.inf, 1),
    "stuck permanently": stick,
    "zero permanently": set_to(0.0, None),
    **{f"zero for {samples} samples": set_to(0.0, samples) for samples in (4, 8, 16, 64, 256)},
    **{f"clips {share:g} % of the samples": clip_share(share / 100) for share in (50, 25, 10, 5, 2, 1, 0.5)},
    "one spike of 60 deviations": set_to(60.0, 1),
    "saturated at 60 deviations permanently": set_to(60.0, None),
}


class SoundSet:
    """Recordings of one machine with sound sensors, and the quality gate of a model trained on them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._scenario = Scenario.load(name)
        library = open_library(folder, self._scenario)
        if isinstance(library, DataSet):
            raise ConfigError(f"{folder}: is a data set; expected recordings of scenario {self._scenario.name}")
        self._library = library
        profile = Profile.load("robust", SETTINGS.get(name))
        self.spec = profile.window
        learnt = training_windows(self._scenario, profile, self._library)
        [model] = train(self._scenario, profile, learnt, objective="plain")
        self._network = model.network
        segments = self._scenario.training_segments(self._library)
        signals = [segment.centred().recording.signal for segment in segments]
        whole = np.concatenate(signals, axis=1, dtype=np.float64)
        self.deviation = whole.std(axis=1)
        scale = whole.mean(axis=1), self.deviation
        equal_samples = model.manifest.usual_equal_samples
        self._gate = QualityGate(
            QualityConfig(), self.spec, len(self.deviation), scale=scale, equal_samples=equal_samples
        )
        self._batch = profile.stream.batch_size

    def flags(self, signal: FloatArray) -> npt.NDArray[np.int8]:
        """Return the reason code of every window of a signal, checked in batches."""
        self._gate.reset()
        found = []
        for begin in range(0, self.spec.count(signal.shape[1]), self._batch):
            first = begin * self.spec.step
            last = first + (self._batch - 1) * self.spec.step + self.spec.length
            found.append(self._gate.check(signal[:, first:last]).worst)
        return np.concatenate(found)

    def recordings(self) -> Iterator[Recording]:
        """Read every recording in full."""
        for file in self._library.files:
            if isinstance(file, SteadyStateFile):
                whole = self._library.get(file.state, file.run, severity="H", specimen=1)
            else:
                whole = read_recording(file.path)
            yield whole.centred().select(self._scenario.channels)

    def classes(self, signal: FloatArray, wanted: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """Return the predicted classes of some windows."""
        windows = sliding_window_view(signal, self.spec.length, axis=1)[:, :: self.spec.step].transpose(1, 0, 2)
        with torch.inference_mode():
            said: npt.NDArray[np.int64] = self._network(torch.from_numpy(windows[wanted])).argmax(dim=1).numpy()
        return said

    def sound_segments(self, rng: np.random.Generator) -> Iterator[Recording]:
        """Cut the sound segments of the trials from the training data, in which the machine runs."""
        segments = [one.centred() for one in self._scenario.training_segments(self._library)]
        samples = STATE_LENGTHS * self.spec.length
        long_enough = [one.recording for one in segments if one.recording.samples >= samples]
        for place in rng.permutation(len(long_enough) * (TRIALS // len(long_enough) + 1))[:TRIALS]:
            recording = long_enough[place % len(long_enough)]
            begin = int(rng.integers(recording.samples - samples + 1))
            yield recording.cut(begin, begin + samples)


def false_flags(sets: Sequence[SoundSet]) -> Table:
    """Return the number of flagged windows in sound recordings."""
    rows = []
    for one in sets:
        recordings, reasons = 0, Counter[str]()
        for recording in one.recordings():
            recordings += 1
            reasons.update(WINDOW_REASONS[code] for code in one.flags(recording.signal).tolist())
        flagged = reasons.total() - reasons[GOOD]
        why = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items() if reason != GOOD)
        rows.append(
            (one.name, f"{recordings}", f"{reasons.total():,}", f"{flagged:,}", f"{flagged / reasons.total():.4%}", why)
        )
    return Table("false-flags", ("recordings of", "files", "windows", "flagged", "share", "reasons"), tuple(rows))


@dataclass(frozen=True)
class Trial:
    """The outcome of one corrupted channel."""

    delay: int | None
    """Windows from the first one with a corrupt sample to the first flag; None if there is no flag."""
    affected: int
    """Windows with a corrupt sample."""
    reasons: Counter[str]
    """Reasons of these windows."""
    misled: int
    """Of these windows, those not flagged and assigned to another class than without the fault."""


def corrupt(one: SoundSet, segment: Recording, fault: Corruption, rng: np.random.Generator) -> Trial | None:
    """Corrupt a channel and evaluate the affected windows; return None if the signal did not change."""
    channel = int(rng.integers(len(segment.channels)))
    begin = 2 * one.spec.length + int(rng.integers(one.spec.length))
    signal = segment.signal.copy()
    fault(signal[channel], begin, float(one.deviation[channel]))
    changed = signal[channel] != segment.signal[channel]
    affected = sliding_window_view(changed, one.spec.length)[:: one.spec.step].any(axis=1)
    if not affected.any():
        return None
    codes = one.flags(signal)
    flagged = np.flatnonzero(affected & (codes > 0))
    reasons = Counter(WINDOW_REASONS[code] for code in codes[affected].tolist())
    passed = np.flatnonzero(affected & (codes == 0))
    misled = int((one.classes(signal, passed) != one.classes(segment.signal, passed)).sum()) if len(passed) else 0
    return Trial(int(flagged[0] - affected.argmax()) if len(flagged) else None, int(affected.sum()), reasons, misled)


def found_faults(sets: Sequence[SoundSet]) -> tuple[Table, Table]:
    """Return two tables: faults detected, with delay and reason; and the harm of the undetected ones."""
    rows, misled = [], []
    for name, fault in FAULTS.items():
        cells, harm, reasons = [], [], Counter[str]()
        for one in sets:
            # The same segments, channels and positions for every fault.
            rng = np.random.default_rng(0)
            trials = [corrupt(one, segment, fault, rng) for segment in one.sound_segments(rng)]
            real = [each for each in trials if each is not None]
            delays = [each.delay for each in real if each.delay is not None]
            reasons_here = sum((each.reasons for each in real), Counter[str]())
            reasons += reasons_here
            share = 1 - reasons_here[GOOD] / reasons_here.total()
            after = f"after {np.median(delays):.0f}, at most {max(delays)}, " if delays else ""
            cells.append(f"{len(delays)} of {len(real)}, {after}{share:.1%}")
            harm.append(f"{sum(each.misled for each in real) / sum(each.affected for each in real):.2%}")
        flags = reasons.total() - reasons[GOOD]
        why = [f"{reason} {count / flags:.0%}" for reason, count in reasons.most_common() if reason != GOOD]
        rows.append((name, *cells, ", ".join(why)))
        misled.append((name, *harm))
    names = tuple(one.name for one in sets)
    found = Table("sensor-faults", ("fault", *names, "reason"), tuple(rows))
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
