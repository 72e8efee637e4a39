"""The signal of labelled intervals, as far as a service still has it: in journals, or as waveforms around alarms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError
from cgsa.events import Label
from cgsa.live.intake.block import Block
from cgsa.live.kept_signal import KEPT_FOLDER
from cgsa.live.segments import JournalRecord, read_journal
from cgsa.live.store import RowSelection, Snippet
from cgsa.live.store.pages import MAX_PAGE
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.watch import COMMAND

CLOCK_TOLERANCE = 0.05
"""Seconds by which a block may be early or late and still continue the one before it."""
Span = tuple[float, float]
"""Begin and end, in seconds of the stream."""


@dataclass(frozen=True)
class LabelledInterval:
    """A time for which a person stated the state of a machine."""

    machine: str
    state: str
    begin: float
    end: float


@dataclass(frozen=True, eq=False)
class LabelledSignal:
    """Consecutive samples of a labelled interval."""

    interval: LabelledInterval
    time: float
    """Time of the first sample."""
    sample_rate: float
    channels: tuple[str, ...]
    units: Mapping[str, str]
    """As far as their sender stated them."""
    conditions: Mapping[str, FloatArray]
    """Operating conditions that the sender stated all the time, one value per sample."""
    samples: FloatArray

    @property
    def span(self) -> Span:
        """Begin and end of the samples."""
        return self.time, self.time + self.samples.shape[1] / self.sample_rate


def labels_of(snapshot: Snapshot, machine: str | None = None, case: int | None = None) -> list[Label]:
    """Return the labels of a store, the newest first."""
    found: list[Label] = []
    page = snapshot.labels(machine, case=case, pick=RowSelection(limit=MAX_PAGE))
    found += page.rows
    while page.more:
        page = snapshot.labels(machine, case=case, pick=RowSelection(limit=MAX_PAGE, after=page.cursor))
        found += page.rows
    return found


def labelled_intervals(labels: Iterable[Label], taken: Iterable[tuple[str, Span]] = ()) -> list[LabelledInterval]:
    """Return the labelled intervals in the order of time, without what is ``taken`` of each machine.

    ``labels`` are in order from the newest: where several speak of the same time, the newest counts.
    """
    covered: dict[str, list[Span]] = {}
    for machine, span in taken:
        covered.setdefault(machine, []).append(span)
    found = []
    for label in labels:
        known = covered.setdefault(label.machine, [])
        rest = subtract_spans((label.begin, label.end), known)
        known.append((label.begin, label.end))
        found += [LabelledInterval(label.machine, label.state, begin, end) for begin, end in rest]
    return sorted(found, key=lambda one: (one.machine, one.begin))


def subtract_spans(whole: Span, parts: Iterable[Span]) -> list[Span]:
    """Return what remains of a span without some parts of it.

    >>> subtract_spans((0, 10), [(2, 3), (8, 12)])
    [(0, 2), (3, 8)]
    """
    begin, end = whole
    rest = []
    for first, last in sorted(parts):
        if last <= begin or first >= end:
            continue
        if first > begin:
            rest.append((begin, first))
        begin = max(begin, last)
    return [*rest, (begin, end)] if begin < end else rest


def read_labelled_signal(
    folder: Path, snapshot: Snapshot, intervals: Sequence[LabelledInterval]
) -> Iterator[LabelledSignal]:
    """Yield what a service has of the intervals of one machine, whose folder it is; it may be running meanwhile."""
    if not intervals:
        return
    covered: list[Span] = []
    for interval, blocks in _journal_runs((folder / KEPT_FOLDER, folder / "journal"), intervals):
        found = _join(interval, blocks)
        if found is not None:
            covered.append(found.span)
            yield found
    snippets = snapshot.snippets(intervals[0].machine, pick=RowSelection(limit=MAX_PAGE)).rows
    for interval in intervals:
        for snippet in snippets:
            whole = (snippet.time, snippet.time + snippet.samples.shape[1] / snippet.sample_rate)
            inside = max(interval.begin, whole[0]), min(interval.end, whole[1])
            for span in subtract_spans(inside, covered) if inside[0] < inside[1] else ():
                found = _of_snippet(interval, snippet, span)
                if found is not None:
                    covered.append(found.span)
                    yield found


def _journal_runs(
    journals: Sequence[Path], intervals: Sequence[LabelledInterval]
) -> Iterator[tuple[LabelledInterval, list[Block]]]:
    """Yield consecutive blocks of each interval; the older journal comes first."""
    runs: dict[LabelledInterval, list[Block]] = {}
    seen: set[tuple[int, float]] = set()
    for block in chain.from_iterable(map(_blocks, journals)):
        # A block whose acknowledgement was lost is in the journal twice.
        if (block.sequence, block.time) in seen:
            continue
        seen.add((block.sequence, block.time))
        for interval in intervals:
            if block.time >= interval.end or block.time + block.seconds <= interval.begin:
                continue
            run = runs.setdefault(interval, [])
            if run and not _continues(block, run[-1]):
                yield interval, run
                run = runs[interval] = []
            run.append(block)
    yield from runs.items()


def _blocks(journal: Path) -> Iterator[Block]:
    if not journal.is_dir():
        return
    for entry in read_journal(journal):
        if not isinstance(entry, JournalRecord) or entry.kind == COMMAND:
            continue
        try:
            yield Block.from_bytes(entry.payload)
        except DataError:
            # Damaged, or from another version: it ends the run of blocks.
            continue


def _continues(block: Block, before: Block) -> bool:
    late = block.time - before.time - before.seconds
    same = (block.channels, block.units, block.sample_rate) == (before.channels, before.units, before.sample_rate)
    return same and block.sequence == before.sequence + 1 and abs(late) <= CLOCK_TOLERANCE


def _join(interval: LabelledInterval, blocks: Sequence[Block]) -> LabelledSignal | None:
    first = blocks[0]
    names = [name for name in first.conditions if all(name in block.conditions for block in blocks)]
    counts = [block.count for block in blocks]
    conditions = {
        name: np.repeat(np.array([block.conditions[name] for block in blocks], np.float32), counts) for name in names
    }
    samples = np.concatenate([block.samples for block in blocks], axis=1)
    whole = LabelledSignal(interval, first.time, first.sample_rate, first.channels, first.units, conditions, samples)
    return _cut(whole, (interval.begin, interval.end))


def _of_snippet(interval: LabelledInterval, snippet: Snippet, span: Span) -> LabelledSignal | None:
    whole = LabelledSignal(interval, snippet.time, snippet.sample_rate, snippet.channels, {}, {}, snippet.samples)
    return _cut(whole, span)


def _cut(signal: LabelledSignal, span: Span) -> LabelledSignal | None:
    """Return the samples within a span; None if there are none."""
    rate, count = signal.sample_rate, signal.samples.shape[1]
    # The last digits of a time of today are a few tenths of a microsecond.
    first = max(0, math.ceil((span[0] - signal.time) * rate - 1e-3))
    last = min(count, math.ceil((span[1] - signal.time) * rate - 1e-3))
    if first >= last:
        return None
    return LabelledSignal(
        signal.interval,
        signal.time + first / rate,
        rate,
        signal.channels,
        signal.units,
        {name: trace[first:last] for name, trace in signal.conditions.items()},
        np.ascontiguousarray(signal.samples[:, first:last]),
    )
