"""Applies the entries of a journal to a watch, and starts over from a saved state after a failure.

A failure may leave a watch half changed. So what follows one is the same as what follows a kill: a fresh watch loads
the newest saved state, and the entries after it are applied again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cgsa.errors import BundleError
from cgsa.live.processing import EntrySource, ResultReceiver, StateSource, WaitingEntries
from cgsa.live.segments import Entry
from cgsa.live.skipped_entries import SkippedEntries
from cgsa.live.watch import Watch, WatchResult

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ProcessedEntry:
    """An entry, and what it led to."""

    entry: Entry
    result: WatchResult
    used: bool
    """Whether samples of it were used."""


class EntryProcessor:
    """Applies the entries of one machine's journal; only one thread may use it.

    ``remark`` receives messages for the operator.
    """

    def __init__(
        self,
        watch: Watch,
        journal: EntrySource,
        queue: WaitingEntries,
        *,
        states: StateSource,
        results: ResultReceiver,
        remark: Callable[[str], None],
    ) -> None:
        self.watch = watch
        """Another object after each failure."""
        self.skipped = SkippedEntries(journal)
        self.saved_position: int | None = None
        """Position of the newest saved state; None without one."""
        self.started_afresh = False
        """Whether the watch continues without its saved states, so that it needs a new one soon."""
        self._journal, self._queue, self._states, self._results = journal, queue, states, results
        self._remark = remark
        self._first_position = journal.begin
        """Where a watch without a saved state begins."""
        self._processing: Entry | None = None
        """The entry that is being applied."""
        self._processed: ProcessedEntry | None = None
        """An entry that was applied, and whose results are not in the store yet."""
        self._broken = True
        """Whether the watch is not restored yet, or an entry may have been applied in part."""

    @property
    def settled(self) -> bool:
        """Whether the watch has processed all entries before the position of the queue, and nothing else."""
        return not self._broken and self._processing is None and self._processed is None

    def restore(self) -> None:
        """Bring a fresh watch to its newest saved state, and continue with the entry after that."""
        restored, position = self._states.newest(), self._first_position
        for text in self._states.take_notes():
            self._remark(text)
        if restored is not None:
            about = restored.saved.about.get("watch")
            try:
                self.watch.restore(restored.tensors, about if isinstance(about, Mapping) else {})
                position = self.saved_position = restored.saved.position
                self._journal.advance(position)
            except BundleError as error:
                # A deliberate change of the model.
                self._remark(f"{error}; the watch starts afresh")
                begin = self._journal.begin_of_another_model(restored.saved.position)
                position = self._first_position = max(self._first_position, begin)
                self._start_afresh()
        elif position > self._journal.origin:
            self._remark(f"no valid state is left; the watch starts afresh at entry {position} of the journal")
            self._start_afresh()
        self._queue.start_at(position)
        self._broken = False

    def _start_afresh(self) -> None:
        """Start with a fresh watch, whose results have other keys than those in the store."""
        self.watch = self.watch.fresh(*self._results.continued_numbers())
        self.started_afresh = True

    def process(self) -> ProcessedEntry | None:
        """Process the next entry, and return it with its results; None if there is none.

        If this raises, it can be called again: what failed is done again.
        """
        if self._broken:
            self.watch = self.watch.fresh()
            self.restore()
        if self._processed is None:
            self.skipped.load(self._queue.position)
            taken = self._queue.take()
            if taken is None:
                return None
            self._processed = self._apply(self.skipped.substitute(taken))
        done = self._processed
        self._processing = done.entry
        self._results.write(done.entry, done.result)
        self._processed = self._processing = None
        # Last, so that whoever waits for a position finds its results in the store.
        self._queue.finish(done.entry)
        return done

    def leave_out(self, error: Exception) -> bool:
        """Return whether to go on after a fault of the program: with the entry that it hit, or without it."""
        entry = self._processing
        position = self._queue.position if entry is None else entry.position
        machine = self.watch.machine
        LOG.exception("%s: entry %d could not be processed", machine, position, extra={"machine": machine})
        self._processed = self._processing = None
        self._broken = True
        return entry is not None and self.skipped.fail(entry, error)

    def _apply(self, entry: Entry) -> ProcessedEntry:
        used = self.watch.counts.used_blocks
        self._processing, self._broken = entry, True
        result = self.watch.apply(entry)
        self._processing, self._broken = None, False
        return ProcessedEntry(entry, result, self.watch.counts.used_blocks > used)
