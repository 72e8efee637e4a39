"""An old and a new model side by side on the same recorded streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, TypeAlias

import numpy as np
import torch

from cgsa.data.dataset import DataSet
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.evaluation.decided import DecidedStream, decide_stream
from cgsa.evaluation.streams import EvaluationStream, evaluation_streams
from cgsa.metrics.accuracy import IntArray
from cgsa.metrics.detection import false_alarms
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import profile_for
from cgsa.workflow import trained_on_part

Side: TypeAlias = Literal["old", "new"]
OnCompared: TypeAlias = Callable[[int, int, str], None]
"""Receives how many streams are done, how many there are, and the name of the last one."""


@dataclass(frozen=True)
class StateSpan:
    """A time with one state."""

    begin: float
    end: float
    state: str


@dataclass(frozen=True)
class Disagreement:
    """A time in which the models say different things."""

    begin: float
    end: float
    old: str
    new: str


@dataclass(frozen=True)
class ModelRun:
    """What one model says of a stream."""

    verdicts: tuple[StateSpan, ...]
    """From begin to end of the stream."""
    alarms: tuple[StateSpan, ...]
    """The times with an active alarm, and the faults that it reports."""
    trained: bool
    """Whether the model was trained on a part of the judged recording."""
    right: float | None = None
    """Share of the windows of the judged recording with the right verdict; None if nobody knows what is right."""
    delay: float | None = None
    """Seconds from the onset of the fault to the alarm; None without an alarm or fault."""
    named_delay: float | None = None
    """Seconds to an alarm that names the fault."""
    false_alarms: int = 0
    """Alarms on a healthy machine."""


@dataclass(frozen=True)
class ComparedStream:
    """A stream of recordings with what both models say of it."""

    name: str
    point: str
    """Operating condition in words."""
    truth: str | None
    """Class of the judged recording, which is the last one; None if it is not known."""
    healthy: bool
    """Whether that is the healthy class."""
    seconds: float
    judged_seconds: float
    old: ModelRun
    new: ModelRun

    @property
    def disagreements(self) -> list[Disagreement]:
        """The times in which the verdicts differ."""
        return disagreements(self.old.verdicts, self.new.verdicts)

    @property
    def differing_seconds(self) -> float:
        """For how long the verdicts differ."""
        return sum(one.end - one.begin for one in self.disagreements)

    @property
    def new_to_both(self) -> bool:
        """Whether neither model was trained on it."""
        return not (self.old.trained or self.new.trained)

    def of(self, side: Side) -> ModelRun:
        """Return what one of the models says."""
        return self.old if side == "old" else self.new


@dataclass(frozen=True)
class SideFigures:
    """The figures of one model over some streams."""

    right: float | None
    """Share of right verdicts, healthy and faulty recordings half each."""
    faults: int
    alarms: int
    """Faults with an alarm."""
    named: int
    """Faults whose alarm names them."""
    delay: float | None
    """Median seconds to the alarm."""
    false_alarms: int
    healthy_seconds: float
    trained: int
    """Recordings that the model was trained on."""

    @classmethod
    def over(cls, streams: Sequence[ComparedStream], side: Side) -> SideFigures:
        """Return the figures over labelled streams."""
        known = [one for one in streams if one.truth is not None]
        faults = [one.of(side) for one in known if not one.healthy]
        delays = [run.delay for run in faults if run.delay is not None]
        halves = [
            [run.right for one in known if one.healthy == healthy and (run := one.of(side)).right is not None]
            for healthy in (True, False)
        ]
        means = [fmean(half) for half in halves if half]
        return cls(
            right=fmean(means) if means else None,
            faults=len(faults),
            alarms=len(delays),
            named=sum(run.named_delay is not None for run in faults),
            delay=median(delays) if delays else None,
            false_alarms=sum(one.of(side).false_alarms for one in known if one.healthy),
            healthy_seconds=sum(one.judged_seconds for one in known if one.healthy),
            trained=sum(one.of(side).trained for one in streams),
        )


@dataclass(frozen=True)
class ModelComparison:
    """Two models on the same streams."""

    old: str
    new: str
    data: str
    streams: tuple[ComparedStream, ...]

    @property
    def new_to_both(self) -> list[ComparedStream]:
        """The streams on which neither model was trained."""
        return [one for one in self.streams if one.new_to_both]

    @property
    def labelled(self) -> bool:
        """Whether it is known what is right."""
        return any(one.truth is not None for one in self.streams)

    @property
    def differing_share(self) -> float:
        """Share of the time in which the verdicts differ."""
        return sum(one.differing_seconds for one in self.streams) / sum(one.seconds for one in self.streams)


def compare_on_data_set(
    bundles: tuple[ModelBundle, ModelBundle],
    names: tuple[str, str],
    data_set: DataSet,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_stream: OnCompared | None = None,
) -> ModelComparison:
    """Compare an old and a new model on every recording of a data set, each fault after the healthy machine."""
    healthy = data_set.about.classes[0]
    for bundle, name in zip(bundles, names, strict=True):
        if bundle.manifest.change is None and bundle.manifest.classes[0] != healthy:
            raise DataError(
                f"{data_set.folder}: its healthy class is {healthy!r}, that of {name} is "
                f"{bundle.manifest.classes[0]!r}; rename it"
            )
    streams = evaluation_streams(data_set.selected, healthy)
    found = []
    for number, stream in enumerate(streams, start=1):
        found.append(_compare_labelled(bundles, data_set, stream, seed=seed, device=device))
        if on_stream is not None:
            on_stream(number, len(streams), stream.judged.entry.file)
    return ModelComparison(*names, str(data_set.folder), tuple(found))


def compare_on_recordings(
    bundles: tuple[ModelBundle, ModelBundle],
    names: tuple[str, str],
    recordings: Sequence[Recording],
    *,
    healthy_start: bool = False,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> ModelComparison:
    """Compare an old and a new model on unlabelled recordings of one machine, one after the other as one stream."""
    seconds = sum(one.seconds for one in recordings)
    old, new = (
        _run_of(
            bundle,
            _decided(bundle, recordings, healthy_start=healthy_start, seed=seed, device=device),
            recordings,
        )
        for bundle in bundles
    )
    name = recordings[0].source if len(recordings) == 1 else f"{len(recordings)} recordings"
    stream = ComparedStream(name, "", None, healthy=False, seconds=seconds, judged_seconds=seconds, old=old, new=new)
    return ModelComparison(*names, name, (stream,))


def spans_of(end: Sequence[float], states: Sequence[str], seconds: float) -> tuple[StateSpan, ...]:
    """Return the state over a whole stream from that of every window: each holds from the window before it on.

    >>> [(one.begin, one.end, one.state) for one in spans_of([1, 2, 3], ["a", "b", "b"], 3.5)]
    [(0.0, 1.0, 'a'), (1.0, 3.5, 'b')]
    """
    changes = [place for place in range(1, len(states)) if states[place] != states[place - 1]]
    begins = [0.0, *(float(end[place - 1]) for place in changes)]
    return tuple(
        StateSpan(begin, last, states[place])
        for begin, last, place in zip(begins, [*begins[1:], float(seconds)], [0, *changes], strict=True)
    )


def disagreements(old: Iterable[StateSpan], new: Iterable[StateSpan]) -> list[Disagreement]:
    """Return the times in which two courses of states differ, in order."""
    found: list[Disagreement] = []
    for a in old:
        for b in new:
            begin, end = max(a.begin, b.begin), min(a.end, b.end)
            if begin < end and a.state != b.state:
                found.append(Disagreement(begin, end, a.state, b.state))
    return sorted(found, key=lambda one: one.begin)


def _compare_labelled(
    bundles: tuple[ModelBundle, ModelBundle],
    data_set: DataSet,
    stream: EvaluationStream,
    *,
    seed: int,
    device: torch.device | str,
) -> ComparedStream:
    recordings = [data_set.read(part.entry) for part in stream.parts]
    truth, healthy = stream.judged.entry.label, data_set.about.classes[0]
    starts_healthy = stream.parts[0].entry.label == healthy
    old, new = (
        _run_of(
            bundle,
            _decided(bundle, recordings, healthy_start=starts_healthy, seed=seed, device=device),
            recordings,
            truth,
            healthy=truth == healthy,
        )
        for bundle in bundles
    )
    return ComparedStream(
        name=stream.judged.entry.file,
        point=stream.judged.point,
        truth=truth,
        healthy=truth == healthy,
        seconds=sum(one.seconds for one in recordings),
        judged_seconds=recordings[-1].seconds,
        old=old,
        new=new,
    )


def _decided(
    bundle: ModelBundle,
    recordings: Sequence[Recording],
    *,
    healthy_start: bool,
    seed: int,
    device: torch.device | str,
) -> DecidedStream:
    """Decide along recordings as one stream; their true states are not compared here."""
    return decide_stream(
        bundle,
        recordings,
        profile_for(bundle),
        labels=[0] * len(recordings),
        healthy_start=healthy_start,
        seed=seed,
        device=device,
    )


def _run_of(
    bundle: ModelBundle,
    found: DecidedStream,
    recordings: Sequence[Recording],
    truth: str | None = None,
    *,
    healthy: bool = False,
) -> ModelRun:
    seconds = sum(one.seconds for one in recordings)
    names = [found.states[place] for place in found.state]
    # Without an alarm, the state is that of the healthy machine, whatever its name.
    alarms = [found.states[place] if place else "" for place in found.alarm]
    ends = [float(end) for end in found.end]
    verdicts = spans_of(ends, names, seconds)
    spans = tuple(one for one in spans_of(ends, alarms, seconds) if one.state)
    judged = np.flatnonzero(found.part == len(recordings) - 1)
    trained = any(trained_on_part(one, bundle) for one in (recordings if truth is None else recordings[-1:]))
    if truth is None:
        return ModelRun(verdicts, spans, trained)
    # A model of the healthy machine names no fault: it is right if it says that the machine changed.
    expected = found.states[1] if bundle.manifest.change is not None and not healthy else truth
    right = float(np.mean([names[place] == expected for place in judged]))
    if healthy:
        return ModelRun(verdicts, spans, trained, right, false_alarms=_false_alarms(found.alarm[judged]))
    onset = seconds - recordings[-1].seconds
    after = [(ends[place] - onset, alarms[place]) for place in judged]
    delay = next((time for time, alarm in after if alarm), None)
    named = next((time for time, alarm in after if alarm == expected), None)
    return ModelRun(verdicts, spans, trained, right, delay, named)


def _false_alarms(alarm: IntArray) -> int:
    return false_alarms(alarm, np.zeros_like(alarm))
