"""What pages show of a plant, read once for all pages that are open."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from cgsa.events import AlarmChange, Case, Comment, Label, Note
from cgsa.live.intake.block import Block
from cgsa.live.monitored import MonitoredMachine, MonitoredPlant
from cgsa.live.store import CaseFilter, RowPage, RowSelection, Snippet
from cgsa.metrics.accuracy import DoubleArray
from cgsa.nn.state import select_prefix
from cgsa.report.alarm_explanation import AlarmExplanation, explain_snippet
from cgsa.service.comparison import Difference, differences
from cgsa.service.dashboard.activity import RecentActivity
from cgsa.service.dashboard.cache import ValueCache
from cgsa.service.dashboard.evidence import Evidence, read_evidence
from cgsa.service.dashboard.spectra import Spectrum, amplitude_spectrum, squared_amplitudes
from cgsa.service.dashboard.states import StateRow, state_rows
from cgsa.service.dashboard.summary import MachineSummary
from cgsa.service.dashboard.timeline import DiagnosisTimeline, read_timeline
from cgsa.service.sinks.delivery_log import NotificationSummary, read_summaries
from cgsa.service.trends.comparison import HealthyComparison, compare_with_healthy
from cgsa.service.trends.healthy_signal import HealthySignal, as_recordings
from cgsa.service.trends.history import Trends, read_trends
from cgsa.service.trends.recorder import TrendRecorder

STORED_DIAGNOSES = 200
"""Diagnoses read from the store to know what happened before the dashboard subscribed."""
AVERAGED_BLOCKS = 8
"""Blocks whose spectra are averaged: noise flattens into a floor, and lines rise above it."""
MAX_ROWS = 100
"""Rows of each history table."""
COMPARISON_SECONDS = 10.0
"""Time between two comparisons with the healthy signal; each takes half a second of a thread."""
TREND_SECONDS = 20.0
"""Time between two readings of trends, which get a step per minute."""
MAX_WAVEFORMS = 6
"""Alarms whose waveforms are offered."""


@dataclass(frozen=True, eq=False)
class Signal:
    """The newest accepted block with the averaged spectrum of the last few, or the samples around an alarm."""

    block: Block | None
    spectrum: Spectrum | None
    averaged: int = 0
    """Blocks in the spectrum."""
    case: int | None = None
    """Number of the alarm's case."""


@dataclass(frozen=True, eq=False)
class History:
    """Alarms, comments, labels and notes of a machine, each newest first."""

    cases: tuple[Case, ...]
    changes: tuple[AlarmChange, ...]
    comments: tuple[Comment, ...]
    labels: tuple[Label, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class CaseRow:
    """A case of any machine, and what became of its newest notification."""

    machine: str
    case: Case
    notification: NotificationSummary


class PlantView:
    """Reads a plant for pages."""

    def __init__(self, plant: MonitoredPlant) -> None:
        self.plant = plant
        self._activities: dict[str, RecentActivity] = {}
        self._spectra: dict[str, _SpectrumAverage] = {}
        self._cache = ValueCache()

    def subscribe(self) -> Callable[[], None]:
        """Subscribe to the events of the machines; return the function that ends the subscription."""
        return self.plant.subscribe(lambda machine, _, events: self._activity(machine).add(events))

    async def fleet(self) -> tuple[MachineSummary, ...]:
        """Return all machines, those that need attention first."""
        return await self._cache.get("fleet", self._summaries)

    async def summary(self, machine: str) -> MachineSummary:
        """Return the summary of one machine."""
        worker = self.plant.worker(machine)
        return await self._cache.get(("summary", machine), lambda: self._summary(worker))

    async def timeline(self, machine: str, seconds: float) -> DiagnosisTimeline:
        """Return its diagnoses of the last seconds."""
        worker = self.plant.worker(machine)

        def read() -> DiagnosisTimeline:
            now = worker.now
            with self.plant.store.read() as store:
                return read_timeline(store, machine, now - seconds, now)

        # Within this lifetime, a long timeline grows by less than a point of its chart.
        return await self._cache.get(("timeline", machine, seconds), read, max(0.9, seconds / 600))

    async def evidence(self, machine: str) -> Evidence:
        """Return its newest windows."""
        worker = self.plant.worker(machine)

        def read() -> Evidence:
            with self.plant.store.read() as store:
                return read_evidence(store, machine, worker.manifest, worker.now)

        return await self._cache.get(("evidence", machine), read)

    async def signal(self, machine: str) -> Signal:
        """Return its newest samples."""
        worker = self.plant.worker(machine)
        return await self._cache.get(("signal", machine), lambda: self._signal(worker))

    async def alarm_signals(self, machine: str) -> tuple[Signal, ...]:
        """Return the samples around its last alarms, newest first."""
        self.plant.worker(machine)

        def read() -> tuple[Signal, ...]:
            with self.plant.store.read() as store:
                return tuple(map(_alarm_signal, store.snippets(machine, pick=RowSelection(limit=MAX_WAVEFORMS)).rows))

        return await self._cache.get(("alarm signals", machine), read, 10.0)

    async def comparison(self, machine: str, recorder: TrendRecorder) -> HealthyComparison | None:
        """Return its newest signal beside its healthy signal; None if no signal has come yet."""
        worker = self.plant.worker(machine)

        def compare() -> HealthyComparison | None:
            recent = worker.recent_recording()
            if recent is None:
                return None
            pieces = recorder.healthy.pieces(machine)
            return compare_with_healthy(*recent, pieces, self.plant.explain_config(machine))

        return await self._cache.get(("comparison", machine), compare, COMPARISON_SECONDS)

    def forget_comparison(self, machine: str) -> None:
        """Compute the next comparison anew."""
        self._cache.drop(("comparison", machine))

    async def trends(self, machine: str, seconds: float) -> Trends:
        """Return its trends of the last seconds."""
        worker = self.plant.worker(machine)

        def read() -> Trends:
            now = worker.now
            with self.plant.store.read() as store:
                return read_trends(store, machine, max(0.0, now - seconds), now + 1.0)

        return await self._cache.get(("trends", machine, seconds), read, TREND_SECONDS)

    async def explanation(self, machine: str, healthy: HealthySignal | None = None) -> AlarmExplanation | None:
        """Return what stands out around its last alarm, also against its own healthy signal; None if there was none."""
        manifest = self.plant.worker(machine).manifest

        def newest() -> Snippet | None:
            with self.plant.store.read() as store:
                rows = store.snippets(machine, pick=RowSelection(limit=1)).rows
            return rows[0] if rows else None

        snippet = await self._cache.get(("last alarm", machine), newest, 10.0)
        if snippet is None:
            return None
        config = self.plant.explain_config(machine)
        units = dict(zip(manifest.channels, manifest.units, strict=True))
        pieces = () if healthy is None else await asyncio.to_thread(healthy.pieces, machine)
        # The samples around an alarm do not change any more.
        key = ("explanation", machine, snippet.case, snippet.time, len(pieces))
        own = as_recordings(pieces, units)
        return await self._cache.get(key, lambda: explain_snippet(snippet, config, units, own), 3600.0)

    async def history(self, machine: str) -> History:
        """Return its alarms, comments, labels and notes."""
        self.plant.worker(machine)

        def read() -> History:
            pick = RowSelection(limit=MAX_ROWS)
            with self.plant.store.read() as store:
                return History(
                    cases=tuple(row.case for row in store.cases(machine, pick=pick).rows),
                    changes=store.changes(machine, pick=pick).rows,
                    comments=store.comments(machine, pick=pick).rows,
                    labels=store.labels(machine, pick=pick).rows,
                    notes=store.notes(machine, pick=pick).rows,
                )

        return await self._cache.get(("history", machine), read)

    async def cases(self, which: CaseFilter, pick: RowSelection, steps: Sequence[str]) -> RowPage[CaseRow]:
        """Return cases of all machines, with what became of their notifications."""

        def read() -> RowPage[CaseRow]:
            with self.plant.store.read() as store:
                page = store.cases(which=which, pick=pick)
                found = read_summaries(store, [(row.machine, row.case.number) for row in page.rows], steps)
            rows = [CaseRow(row.machine, row.case, one) for row, one in zip(page.rows, found, strict=True)]
            return RowPage(tuple(rows), page.cursor, page.more)

        return await self._cache.get(("cases", which, pick), read)

    async def notification(self, machine: str, case: int, steps: Sequence[str]) -> NotificationSummary:
        """Return what became of the newest notification of a case."""

        def read() -> NotificationSummary:
            with self.plant.store.read() as store:
                return read_summaries(store, [(machine, case)], steps)[0]

        return await self._cache.get(("notification", machine, case), read)

    async def states(self, machine: str) -> tuple[StateRow, ...]:
        """Return its saved states, newest first."""
        worker = self.plant.worker(machine)
        return await self._cache.get(("states", machine), lambda: state_rows(worker.states()), 3.0)

    async def compare_states(self, machine: str, before: int, after: int) -> tuple[Difference, ...]:
        """Return the differences between two saved states."""
        worker = self.plant.worker(machine)

        def read() -> tuple[Difference, ...]:
            old, new = (select_prefix("method", worker.state(number).tensors) for number in (before, after))
            return differences(old, new)

        return await self._cache.get(("compare", machine, before, after), read, 3600.0)

    def _activity(self, machine: str) -> RecentActivity:
        # setdefault is atomic: two threads get the same object.
        return self._activities.setdefault(machine, RecentActivity())

    def _summaries(self) -> tuple[MachineSummary, ...]:
        workers = tuple(self.plant.workers.values())
        self._load_histories(workers)
        found = [MachineSummary.of(worker, self._activity(worker.machine).snapshot()) for worker in workers]
        return tuple(sorted(found, key=lambda one: one.rank))

    def _summary(self, worker: MonitoredMachine) -> MachineSummary:
        self._load_histories([worker])
        return MachineSummary.of(worker, self._activity(worker.machine).snapshot())

    def _load_histories(self, workers: Sequence[MonitoredMachine]) -> None:
        """Read what happened before the dashboard subscribed, once per machine."""
        missing = [one.machine for one in workers if not self._activity(one.machine).history_loaded]
        if not missing:
            return
        with self.plant.store.read() as store:
            for machine in missing:
                diagnoses = store.diagnoses(machine, RowSelection(limit=STORED_DIAGNOSES)).rows
                notes = store.notes(machine, topic="sensor", pick=RowSelection(limit=1)).rows
                self._activity(machine).load_history([*(row.diagnosis for row in reversed(diagnoses)), *notes])

    def _signal(self, worker: MonitoredMachine) -> Signal:
        block = worker.newest_block
        if block is None:
            return Signal(None, None)
        return self._spectra.setdefault(worker.machine, _SpectrumAverage()).add(block)


class _SpectrumAverage:
    """Averages the squared amplitudes of the last blocks, as long as their channels, rate and length stay the same."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: Block | None = None
        self._squared: deque[DoubleArray] = deque(maxlen=AVERAGED_BLOCKS)

    def add(self, block: Block) -> Signal:
        with self._lock:
            if block is not self._last:
                if self._last is None or _layout(self._last) != _layout(block):
                    self._squared.clear()
                self._squared.append(squared_amplitudes(block.samples))
                self._last = block
            mean = np.mean(self._squared, axis=0)
            return Signal(block, amplitude_spectrum(mean, block.sample_rate, block.count), len(self._squared))


def _alarm_signal(snippet: Snippet) -> Signal:
    samples = np.nan_to_num(snippet.samples, posinf=0.0, neginf=0.0)
    block = Block(snippet.machine, 0, snippet.time, snippet.sample_rate, snippet.channels, samples)
    spectrum = amplitude_spectrum(squared_amplitudes(samples), block.sample_rate, block.count)
    return Signal(block, spectrum, 1, snippet.case)


def _layout(block: Block) -> tuple[tuple[str, ...], float, int]:
    return block.channels, block.sample_rate, block.count
