"""What all pages look at: one board for a plant, however many people stand before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np

from cgsa.events import AlarmChange, Case, Comment, Event, Label, Note
from cgsa.live.intake.block import Block
from cgsa.live.plant import Plant
from cgsa.live.store import RowSelection, Snippet
from cgsa.live.worker import Worker
from cgsa.nn.state import select_prefix
from cgsa.service.comparison import Difference, differences
from cgsa.service.dashboard.activity import RecentActivity
from cgsa.service.dashboard.cache import ValueCache
from cgsa.service.dashboard.evidence import Evidence, read_evidence
from cgsa.service.dashboard.spectra import Floats, Spectrum, power, spectrum
from cgsa.service.dashboard.states import StateRow, state_rows
from cgsa.service.dashboard.summary import Summary
from cgsa.service.dashboard.timeline import DiagnosisTimeline, read_timeline

RECALLED = 200
"""Diagnoses that are read to know what was before the dashboard began to hear."""
AVERAGED = 8
"""Blocks whose spectra are averaged: noise becomes a floor, and lines stand out of it."""
MOST_ROWS = 100
"""Of histories."""
MOST_WAVEFORMS = 6
"""Of alarms that can be looked at."""


@dataclass(frozen=True, eq=False)
class Signal:
    """The last block that was believed, and the spectrum of the last few; or the samples around an alarm."""

    block: Block | None
    spectrum: Spectrum | None
    averaged: int = 0
    """Blocks in the spectrum."""
    case: int | None = None
    """Number of the alarm's case."""


@dataclass(frozen=True, eq=False)
class History:
    """What happened to a machine's alarms, and what else there was to tell; the newest first."""

    cases: tuple[Case, ...]
    changes: tuple[AlarmChange, ...]
    comments: tuple[Comment, ...]
    labels: tuple[Label, ...]
    notes: tuple[Note, ...]


class PlantView:
    """Reads a plant for pages.

    Parameters
    ----------
    plant
        Whose machines are shown.
    """

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self._pulses: dict[str, RecentActivity] = {}
        self._spectra: dict[str, _Spectra] = {}
        self._shelf = ValueCache()

    def listen(self) -> Callable[[], None]:
        """Begin to hear what machines tell; returns what ends that."""
        return self.plant.subscribe(self._hear)

    async def fleet(self) -> tuple[Summary, ...]:
        """Return all machines, the one to look at first being first."""
        return await self._shelf.get("fleet", self._summaries)

    async def summary(self, machine: str) -> Summary:
        """Return one machine."""
        worker = self.plant.worker(machine)
        return await self._shelf.get(("summary", machine), lambda: self._summary(worker))

    async def course(self, machine: str, seconds: float) -> DiagnosisTimeline:
        """Return what it was diagnosed with lately."""
        worker = self.plant.worker(machine)

        def read() -> DiagnosisTimeline:
            now = worker.watch.now
            with self.plant.store.read() as store:
                return read_timeline(store, machine, now - seconds, now)

        # What a long course gains in a second is less than a point of its chart.
        return await self._shelf.get(("course", machine, seconds), read, max(0.9, seconds / 600))

    async def evidence(self, machine: str) -> Evidence:
        """Return its newest windows."""
        watch = self.plant.worker(machine).watch

        def read() -> Evidence:
            with self.plant.store.read() as store:
                return read_evidence(store, machine, watch.bundle.manifest, watch.now)

        return await self._shelf.get(("evidence", machine), read)

    async def signal(self, machine: str) -> Signal:
        """Return its newest samples."""
        worker = self.plant.worker(machine)
        return await self._shelf.get(("signal", machine), lambda: self._signal(worker))

    async def alarm_signals(self, machine: str) -> tuple[Signal, ...]:
        """Return the samples around its last alarms, the newest first."""
        self.plant.worker(machine)

        def read() -> tuple[Signal, ...]:
            with self.plant.store.read() as store:
                return tuple(map(_around_alarm, store.snippets(machine, pick=RowSelection(limit=MOST_WAVEFORMS)).rows))

        return await self._shelf.get(("alarm signals", machine), read, 10.0)

    async def history(self, machine: str) -> History:
        """Return what happened to its alarms, and its notes."""
        self.plant.worker(machine)

        def read() -> History:
            pick = RowSelection(limit=MOST_ROWS)
            with self.plant.store.read() as store:
                return History(
                    cases=tuple(row.case for row in store.cases(machine, pick=pick).rows),
                    changes=store.changes(machine, pick=pick).rows,
                    comments=store.comments(machine, pick=pick).rows,
                    labels=store.labels(machine, pick=pick).rows,
                    notes=store.notes(machine, pick=pick).rows,
                )

        return await self._shelf.get(("history", machine), read)

    async def states(self, machine: str) -> tuple[StateRow, ...]:
        """Return the states that can be rolled back to, the newest first."""
        worker = self.plant.worker(machine)
        return await self._shelf.get(("states", machine), lambda: state_rows(worker.states()), 3.0)

    async def compare(self, machine: str, before: int, after: int) -> tuple[Difference, ...]:
        """Return in what two states differ."""
        worker = self.plant.worker(machine)

        def read() -> tuple[Difference, ...]:
            old, new = (select_prefix("method", worker.state(number).tensors) for number in (before, after))
            return differences(old, new)

        return await self._shelf.get(("compare", machine, before, after), read, 3600.0)

    def _hear(self, machine: str, position: int, events: tuple[Event, ...]) -> None:  # noqa: ARG002 - what hearers are told
        self._pulse(machine).hear(events)

    def _pulse(self, machine: str) -> RecentActivity:
        # setdefault is one step: two threads get the same pulse.
        return self._pulses.setdefault(machine, RecentActivity())

    def _summaries(self) -> tuple[Summary, ...]:
        found = [self._summary(worker) for worker in tuple(self.plant.workers.values())]
        return tuple(sorted(found, key=lambda one: one.concern))

    def _summary(self, worker: Worker) -> Summary:
        pulse = self._pulse(worker.machine)
        if not pulse.recalled:
            with self.plant.store.read() as store:
                told = store.diagnoses(worker.machine, RowSelection(limit=RECALLED)).rows
                notes = store.notes(worker.machine, topic="sensor", pick=RowSelection(limit=1)).rows
            pulse.recall([*(row.diagnosis for row in reversed(told)), *notes])
        return Summary.of(worker, pulse.heard())

    def _signal(self, worker: Worker) -> Signal:
        block = worker.watch.latest
        if block is None:
            return Signal(None, None)
        return self._spectra.setdefault(worker.machine, _Spectra()).add(block)


class _Spectra:
    """Squared amplitudes of the last blocks that were looked at, as long as they are of one length and rate."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: Block | None = None
        self._powers: deque[Floats] = deque(maxlen=AVERAGED)

    def add(self, block: Block) -> Signal:
        with self._lock:
            if block is not self._last:
                if self._last is None or _kind(self._last) != _kind(block):
                    self._powers.clear()
                self._powers.append(power(block.samples))
                self._last = block
            mean = np.mean(self._powers, axis=0)
            return Signal(block, spectrum(mean, block.sample_rate, block.count), len(self._powers))


def _around_alarm(snippet: Snippet) -> Signal:
    known = np.nan_to_num(snippet.samples, posinf=0.0, neginf=0.0)
    block = Block(snippet.machine, 0, snippet.time, snippet.sample_rate, snippet.channels, known)
    return Signal(block, spectrum(power(known), block.sample_rate, block.count), 1, snippet.case)


def _kind(block: Block) -> tuple[tuple[str, ...], float, int]:
    return block.channels, block.sample_rate, block.count
