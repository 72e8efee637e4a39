"""Ways to spoil a clean set of recordings: what ``cgsa check`` must find.

Every fault is a function that receives recordings in memory and a random generator, and returns the spoilt set with the
names of the recordings that it touched. Place and strength are random. A fault that a set has no room for, such as an
exchange of channels with one channel, returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import resample_poly

from cgsa.check.recordings import LabelledRecording
from cgsa.data.recording import FloatArray, Recording

MAX_STEPS = 32_767
"""Of a copy that is scaled: it is stored with 16 bits again."""


@dataclass(frozen=True)
class SpoiltSet:
    """A set with a planted fault."""

    recordings: tuple[LabelledRecording, ...]
    names: frozenset[str]
    """The recordings that a finding must name; empty if the whole set is concerned."""


Set = Sequence[LabelledRecording]
Plant = Callable[[Set, np.random.Generator], SpoiltSet | None]


@dataclass(frozen=True)
class PlantedFault:
    """A way to spoil a set, and the checks of which one must find it."""

    checks: tuple[str, ...]
    plant: Plant


def signal_of(recording: LabelledRecording) -> Recording:
    """Return the recording, which must be in memory."""
    [only] = recording.parts()
    return only


def with_signal(recording: LabelledRecording, changed: Recording) -> LabelledRecording:
    """Return a recording with another signal."""
    return replace(recording, parts=lambda: (changed,))


def _one(change: Callable[[FloatArray, np.random.Generator], FloatArray | None]) -> Plant:
    """Return the fault that changes the samples of one recording, in all channels alike."""

    def plant(recordings: Set, rng: np.random.Generator) -> SpoiltSet | None:
        place = int(rng.integers(len(recordings)))
        original = signal_of(recordings[place])
        signal = change(original.signal.copy(), rng)
        if signal is None:
            return None
        traces = {
            name: np.resize(trace, signal.shape[1]).astype(np.float32) for name, trace in original.conditions.items()
        }
        changed = replace(original, signal=signal.astype(np.float32), conditions=traces, mean=None)
        return _with_one(recordings, place, with_signal(recordings[place], changed))

    return plant


def _with_one(recordings: Set, place: int, changed: LabelledRecording) -> SpoiltSet:
    return SpoiltSet((*recordings[:place], changed, *recordings[place + 1 :]), frozenset({changed.name}))


def _stretch(signal: FloatArray, rng: np.random.Generator, shortest: float, longest: float) -> slice:
    length = max(16, round(signal.shape[1] * rng.uniform(shortest, longest)))
    begin = int(rng.integers(signal.shape[1] - length + 1))
    return slice(begin, begin + length)


def _deviation(signal: FloatArray) -> FloatArray:
    return np.asarray(signal.std(axis=1, keepdims=True), np.float32)


def missing_values(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Replace one to a hundred samples by NaN."""
    signal[rng.integers(len(signal)), rng.integers(signal.shape[1], size=rng.integers(1, 101))] = np.nan
    return signal


def dead_recording(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Set all channels to zero."""
    del rng
    return np.zeros_like(signal)


def dead_channel(signal: FloatArray, rng: np.random.Generator) -> FloatArray | None:
    """Set one channel to a constant."""
    if len(signal) == 1:
        return None
    signal[rng.integers(len(signal))] = rng.choice([0.0, 1.0, -2.5])
    return signal


def clipping(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Limit the samples to a range that 0.5 to 5 % of them exceed."""
    share = rng.uniform(0.005, 0.05)
    low, high = np.quantile(signal, (share / 2, 1 - share / 2), axis=1, keepdims=True)
    return np.clip(signal, low.astype(np.float32), high.astype(np.float32))


def dropout(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Repeat the last sample, or zero, for 1 to 10 % of the recording."""
    part = _stretch(signal, rng, 0.01, 0.1)
    signal[:, part] = signal[:, part.start, None] if rng.random() < 0.5 else 0.0
    return signal


def unit_slip(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Multiply all channels by 9.81 or 1000, or divide them."""
    return signal * np.float32(rng.choice([9.81, 1 / 9.81, 1000.0, 1 / 1000]))


def coarse_quantisation(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Round to steps of half to one standard deviation."""
    step = _deviation(signal) * np.float32(rng.uniform(0.5, 1.0))
    return np.round(signal / step) * step


def offset_jump(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add one to three standard deviations from some place on."""
    begin = round(signal.shape[1] * rng.uniform(0.15, 0.85))
    signal[:, begin:] += _deviation(signal) * np.float32(rng.choice([-1, 1]) * rng.uniform(1, 3))
    return signal


def drift(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Let the level rise or fall by a factor of 2 to 4 over the recording."""
    gain = np.exp(np.linspace(0, rng.choice([-1, 1]) * np.log(rng.uniform(2, 4)), signal.shape[1]))
    mean = signal.mean(axis=1, keepdims=True)
    return np.asarray((signal - mean) * gain + mean, np.float32)


def short_recording(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Keep 2 to 20 % of the recording."""
    return signal[:, _stretch(signal, rng, 0.02, 0.2)]


def wrong_rate(signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Change the rate of the samples but not the stated one: by 0.5, 0.8, 1.25 or 2."""
    up, down = [(1, 2), (4, 5), (5, 4), (2, 1)][rng.integers(4)]
    mean = signal.mean(axis=1, keepdims=True)
    return np.asarray(resample_poly(signal - mean, up, down, axis=1) + mean)


def swapped_channels(signal: FloatArray, rng: np.random.Generator) -> FloatArray | None:
    """Exchange two channels."""
    if len(signal) == 1:
        return None
    first, second = rng.choice(len(signal), 2, replace=False)
    signal[[first, second]] = signal[[second, first]]
    return signal


def repeated_block(signal: FloatArray, rng: np.random.Generator) -> FloatArray | None:
    """Overwrite a later stretch with an earlier one of the same recording."""
    length = round(signal.shape[1] * rng.uniform(0.25, 0.4))
    if length < 400:
        return None
    begin = int(rng.integers(signal.shape[1] - 2 * length + 1))
    later = int(rng.integers(begin + length, signal.shape[1] - length + 1))
    signal[:, later : later + length] = signal[:, begin : begin + length]
    return signal


def _two(recordings: Set, rng: np.random.Generator, *, same_class: bool | None) -> tuple[int, int] | None:
    """Return two recordings, of the same class, of different ones, or any."""
    order = rng.permutation(len(recordings))
    for first in order:
        for second in order:
            agrees = recordings[first].label == recordings[second].label
            if first != second and same_class in {None, agrees}:
                return int(first), int(second)
    return None


def _copied(
    change: Callable[[Recording, Recording, np.random.Generator], FloatArray | None], *, same_class: bool | None
) -> Plant:
    """Return the fault that puts samples of one recording into another."""

    def plant(recordings: Set, rng: np.random.Generator) -> SpoiltSet | None:
        pair = _two(recordings, rng, same_class=same_class)
        if pair is None:
            return None
        source, target = (recordings[place] for place in pair)
        goal = signal_of(target)
        signal = change(signal_of(source), goal, rng)
        if signal is None:
            return None
        traces = {name: np.resize(trace, signal.shape[1]) for name, trace in goal.conditions.items()}
        changed = with_signal(target, replace(goal, signal=signal, conditions=traces, mean=None))
        spoilt = _with_one(recordings, pair[1], changed)
        return SpoiltSet(spoilt.recordings, frozenset({source.name, target.name}))

    return plant


def whole_copy(source: Recording, target: Recording, rng: np.random.Generator) -> FloatArray:
    """Return all samples of another recording."""
    del target, rng
    return source.signal.copy()


def overlap(source: Recording, target: Recording, rng: np.random.Generator) -> FloatArray | None:
    """Replace 30 to 80 % of a recording by samples from another place of another one."""
    length = round(min(source.samples, target.samples) * rng.uniform(0.3, 0.8))
    if length < 400:
        return None
    begin, other = (int(rng.integers(one.samples - length + 1)) for one in (source, target))
    signal = target.signal.copy()
    signal[:, other : other + length] = source.signal[:, begin : begin + length]
    return signal


def scaled_copy(source: Recording, target: Recording, rng: np.random.Generator) -> FloatArray:
    """Return all samples of another recording at another scale and with another offset, stored with 16 bits."""
    del target
    scale, offset = rng.choice([-1, 1]) * rng.uniform(0.2, 5), rng.uniform(-1, 1) * _deviation(source.signal)
    signal = (source.signal - source.signal.mean(axis=1, keepdims=True)) * np.float32(scale) + offset
    step = np.abs(signal).max(axis=1, keepdims=True) / MAX_STEPS
    return np.asarray(np.round(signal / step) * step, np.float32)


def leakage(recordings: Set, rng: np.random.Generator) -> SpoiltSet | None:
    """Split a set into training and test, and put a recording of the training into the test."""
    splits = [replace(one, split="test" if place % 4 == 3 else "train") for place, one in enumerate(recordings)]
    tests = [place for place, one in enumerate(splits) if one.split == "test"]
    target = int(rng.choice(tests))
    same = [one for one in splits if one.split == "train" and one.label == splits[target].label]
    if not same:
        return None
    source = same[int(rng.integers(len(same)))]
    changed = with_signal(splits[target], signal_of(source))
    return SpoiltSet((*splits[:target], changed, *splits[target + 1 :]), frozenset({source.name, splits[target].name}))


def single_occasion(recordings: Set, rng: np.random.Generator) -> SpoiltSet | None:
    """Let all classes be recorded on several days, and one of them on a single day."""
    classes = sorted({one.label or "" for one in recordings})
    chosen = str(rng.choice(classes))
    counts = dict.fromkeys(classes, 0)
    spoilt = []
    for one in recordings:
        label = one.label or ""
        counts[label] += 1
        spoilt.append(replace(one, session="day 9" if label == chosen else f"day {counts[label] % 3}"))
    if min(counts.values()) < 3 or len(classes) < 2:
        return None
    return SpoiltSet(tuple(spoilt), frozenset(one.name for one in spoilt if one.label == chosen))


def imbalance(recordings: Set, rng: np.random.Generator) -> SpoiltSet | None:
    """Keep 5 to 20 % of the recordings of one class."""
    classes = sorted({one.label or "" for one in recordings})
    chosen = str(rng.choice(classes))
    own = [one for one in recordings if one.label == chosen]
    kept = int(len(own) * rng.uniform(0.05, 0.2))
    if not kept or len(classes) < 2:
        return None
    left = {one.name for one in rng.permutation(np.array(own, dtype=object))[:kept]}
    return SpoiltSet(tuple(one for one in recordings if one.label != chosen or one.name in left), frozenset(left))


def missing_condition(recordings: Set, rng: np.random.Generator) -> SpoiltSet | None:
    """Leave out all recordings of one class at one operating point."""
    place = recordings[int(rng.integers(len(recordings)))]
    left = tuple(one for one in recordings if (one.label, _point(one)) != (place.label, _point(place)))
    others = {one.label for one in left if _point(one) == _point(place)}
    return SpoiltSet(left, frozenset()) if others and any(one.label == place.label for one in left) else None


def _point(recording: LabelledRecording) -> object:
    return recording.point or tuple(sorted((recording.conditions or {}).items()))


PLANTED_FAULTS: Mapping[str, PlantedFault] = {
    "NaN": PlantedFault(("missing_values",), _one(missing_values)),
    "all-zero recording": PlantedFault(("dead_channel",), _one(dead_recording)),
    "dead channel": PlantedFault(("dead_channel",), _one(dead_channel)),
    "clipping": PlantedFault(("clipping",), _one(clipping)),
    "drop-out": PlantedFault(("dropout",), _one(dropout)),
    "unit slip": PlantedFault(("unit_slip",), _one(unit_slip)),
    "same recording under two classes": PlantedFault(("doubled",), _copied(whole_copy, same_class=False)),
    "shifted partial overlap": PlantedFault(("doubled",), _copied(overlap, same_class=True)),
    "scaled copy": PlantedFault(("doubled",), _copied(scaled_copy, same_class=None)),
    "training recording in the test": PlantedFault(("leakage",), leakage),
    "repeated block": PlantedFault(("repeated",), _one(repeated_block)),
    "class from one day": PlantedFault(("occasion",), single_occasion),
    "small class": PlantedFault(("imbalance", "coverage"), imbalance),
    "missing combination": PlantedFault(("coverage",), missing_condition),
    "wrong rate": PlantedFault(("sample_rate", "stated_speed"), _one(wrong_rate)),
    "exchanged channels": PlantedFault(("swapped_channels",), _one(swapped_channels)),
    "coarse quantisation": PlantedFault(("quantisation",), _one(coarse_quantisation)),
    "offset jump": PlantedFault(("offset_jump",), _one(offset_jump)),
    "drift": PlantedFault(("drift",), _one(drift)),
    "short recording": PlantedFault(("duration",), _one(short_recording)),
}
"""Names of the faults in the order of the table that is published."""
