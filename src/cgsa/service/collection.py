"""Labels that people gave on the pages become recordings of a data set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_append import Addition, append_recordings, free_file_name
from cgsa.data.dataset_file import ConditionEntry, MachineFile, RecordingEntry, Split
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.units import normalise_unit
from cgsa.live.labelled_signal import (
    LabelledInterval,
    LabelledSignal,
    Span,
    labelled_intervals,
    labels_of,
    read_labelled_signal,
)
from cgsa.live.store.store import read_store
from cgsa.service.store_config import place_of

MIN_SECONDS = 2.0
"""Shorter pieces are left out: training chooses its windows by the shortest recording."""
RELABELLED = 0.1
"""Share of a recording that a contradicting label must cover to be reported."""
CONSTANT = 0.01
"""Relative range of a condition up to which it counts as constant."""
_ORIGIN = re.compile(r"service: (?P<machine>\S+) from (?P<begin>[\d.]+) to (?P<end>[\d.]+)")

AskCondition = Callable[[LabelledInterval, ConditionEntry], float | None]
"""Returns a condition that a person knows; None if nobody does."""


@dataclass(frozen=True)
class CollectionChoices:
    """What to collect, and what the service does not know."""

    machine: str | None = None
    """A machine of the service; None for all of them."""
    case: int | None = None
    """Labels given to this case only."""
    conditions: Mapping[str, float] = field(default_factory=dict)
    """Operating conditions of intervals for which the sender stated none."""
    unit: str | None = None
    """Name of the assembly; None takes the name of the machine."""
    min_seconds: float = MIN_SECONDS
    for_tests: bool = False
    """Whether the recordings are kept out of training, to evaluate models on them."""
    ask: AskCondition | None = None


@dataclass(frozen=True)
class Collection:
    """What was added to a data set, and what was not."""

    data_set: DataSet
    added: tuple[RecordingEntry, ...]
    seconds: float
    """Length of the added recordings."""
    left_out: tuple[str, ...]
    """Why labelled intervals are missing, in whole or in part."""


def collect_labelled(folder: Path, data_set: DataSet, choices: CollectionChoices) -> Collection:
    """Add the labelled intervals of a service to a data set, as far as it has their samples; none of them twice."""
    known = [(entry, found) for entry in data_set.about.recordings if (found := _collected(entry)) is not None]
    additions: list[Addition] = []
    left_out: list[str] = []
    with read_store(place_of(folder)) as snapshot:
        labels = labels_of(snapshot, choices.machine, choices.case)
        left_out += _contradictions(labelled_intervals(labels), known)
        intervals = labelled_intervals(labels, [found for _, found in known])
        for machine in dict.fromkeys(one.machine for one in intervals):
            own = [one for one in intervals if one.machine == machine]
            kept = dict.fromkeys(own, 0.0)
            for signal in read_labelled_signal(folder / "machines" / machine, snapshot, own):
                kept[signal.interval] += signal.samples.shape[1] / signal.sample_rate
                _convert(signal, data_set, choices, additions, left_out)
            for one, seconds in kept.items():
                # Of an interval that was collected, its edges may remain: less than a sample.
                missing = one.end - one.begin - seconds
                if missing > max(0.5, 0.05 * (one.end - one.begin)):
                    left_out.append(f"{_describe(one)}: {missing:.1f} s of it are no longer in the service")
    added = tuple(entry for entry, _ in additions)
    seconds = sum(recording.seconds for _, recording in additions)
    return Collection(append_recordings(data_set, additions), added, seconds, tuple(left_out))


def _contradictions(
    intervals: Sequence[LabelledInterval], known: Sequence[tuple[RecordingEntry, tuple[str, Span]]]
) -> Iterator[str]:
    """Yield which recordings people labelled anew after they were collected; their entries are not changed."""
    for one in intervals:
        for entry, (machine, (begin, end)) in known:
            shared = min(one.end, end) - max(one.begin, begin)
            if machine == one.machine and entry.label != one.state and shared > RELABELLED * (end - begin):
                stored = f"{entry.file} is {entry.label} in the data set"
                yield f"{_describe(one)}: {stored}; if that is wrong, change its class"


def _convert(
    signal: LabelledSignal,
    data_set: DataSet,
    choices: CollectionChoices,
    additions: list[Addition],
    left_out: list[str],
) -> None:
    """Add the recordings of a signal, or say why there are none."""
    about, what = data_set.about, _describe(signal.interval)
    problem = _misfit(signal, about)
    if problem is not None:
        left_out.append(f"{what}: {problem}")
        return
    given = dict(choices.conditions)
    for known in about.conditions:
        if known.name not in signal.conditions and known.name not in given:
            answer = None if choices.ask is None else choices.ask(signal.interval, known)
            if answer is None:
                left_out.append(f"{what}: its {known.name} is not known; pass --condition {known.name}=VALUE")
                return
            given[known.name] = answer
    rows = [signal.channels.index(channel.name) for channel in about.channels]
    samples = signal.samples[rows]
    for first, last in _finite_runs(samples):
        if (last - first) / signal.sample_rate < choices.min_seconds:
            left_out.append(f"{what}: a piece of {(last - first) / signal.sample_rate:.1f} s is too short")
            continue
        begin = signal.time + first / signal.sample_rate
        end = signal.time + last / signal.sample_rate
        levels, traces = _conditions(signal, about, given, slice(first, last))
        origin = f"service: {signal.interval.machine} from {begin:.6f} to {end:.6f}"
        day = datetime.fromtimestamp(begin, UTC)
        stem = f"{signal.interval.machine}_{signal.interval.state}_{day:%Y%m%d-%H%M%S}"
        file = free_file_name(data_set, stem, [entry.file for entry, _ in additions])
        unit, run = _specimen(about, choices.unit or signal.interval.machine, f"{day:%Y-%m-%d}")
        recording = Recording(
            np.ascontiguousarray(samples[:, first:last]),
            about.sample_rate,
            tuple(channel.name for channel in about.channels),
            tuple(channel.unit for channel in about.channels),
            traces,
            source=origin,
        )
        split: Split | None = "test" if choices.for_tests else None
        entry = RecordingEntry(file, signal.interval.state, levels, unit, run, origin, split)
        additions.append((entry, recording))


def _misfit(signal: LabelledSignal, about: MachineFile) -> str | None:
    """Return why a signal cannot be part of a data set; None if it can."""
    missing = [channel.name for channel in about.channels if channel.name not in signal.channels]
    if missing:
        return f"no channel {', '.join(missing)}; it has {', '.join(signal.channels)}"
    if abs(signal.sample_rate / about.sample_rate - 1) > 1e-3:
        return f"{signal.sample_rate:g} Hz; the data set has {about.sample_rate:g} Hz"
    for channel in about.channels:
        # The service compares stated units with those of its model; one that is not stated is taken for the model's.
        unit = signal.units.get(channel.name, channel.unit)
        if normalise_unit(unit) != normalise_unit(channel.unit):
            return f"channel {channel.name} in {unit}; the data set has it in {channel.unit}"
    return None


def _conditions(
    signal: LabelledSignal, about: MachineFile, given: Mapping[str, float], part: slice
) -> tuple[dict[str, object], dict[str, FloatArray]]:
    """Return the conditions of an entry, and the traces of those that vary."""
    levels: dict[str, object] = {}
    traces: dict[str, FloatArray] = {}
    for known in about.conditions:
        trace = signal.conditions.get(known.name)
        if trace is None:
            levels[known.name] = given[known.name]
            continue
        low, high = float(trace[part].min()), float(trace[part].max())
        mean = float(trace[part].mean(dtype=np.float64))
        if high - low <= CONSTANT * abs(mean):
            same = [one.levels[known.name] for one in about.recordings if known.name in one.levels]
            near = min(same, key=lambda level: abs(level - mean), default=mean)
            levels[known.name] = near if abs(near - mean) <= CONSTANT * abs(mean) else float(f"{mean:.4g}")
        else:
            levels[known.name] = (low, high)
            traces[known.name] = trace[part]
    return levels, traces


def _specimen(about: MachineFile, machine: str, day: str) -> tuple[str | None, str | None]:
    """Return unit and run as far as the data set has them; one that has neither begins to name its units."""
    first = about.recordings[0]
    if first.unit is None and first.run is not None:
        return None, f"{machine} {day}"
    return machine, None if first.run is None else day


def _finite_runs(samples: FloatArray) -> Iterator[tuple[int, int]]:
    """Yield first and last index of the runs without NaN or infinity; sensor faults are no part of a state."""
    good = np.concatenate([[False], np.isfinite(samples).all(axis=0), [False]])
    borders = np.flatnonzero(np.diff(good.astype(np.int8)))
    yield from zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True)


def _collected(entry: RecordingEntry) -> tuple[str, Span] | None:
    """Return machine and time of a recording that was collected earlier."""
    found = _ORIGIN.fullmatch(entry.origin or "")
    return None if found is None else (found["machine"], (float(found["begin"]), float(found["end"])))


def _describe(one: LabelledInterval) -> str:
    begin = datetime.fromtimestamp(one.begin, UTC)
    return f"{one.machine}, {one.state} from {begin:%Y-%m-%d %H:%M:%S} UTC for {one.end - one.begin:.1f} s"
