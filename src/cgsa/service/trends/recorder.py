"""Records trends and the healthy signal of all machines, beside the diagnosis.

A thread takes the newest signal of each machine every few seconds. The threads that diagnose only add up the health of
their batches; if the recorder is slow or fails, a trend has a gap, and nothing else happens.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from cgsa.errors import DataError
from cgsa.events import Diagnosis, Event, Note
from cgsa.live.monitored import MonitoredMachine, MonitoredPlant
from cgsa.live.store import RowSelection
from cgsa.service.trends.healthy_signal import HealthySignal
from cgsa.service.trends.history import HOUR, KEPT, MINUTE, MinuteMeans, hour_row, is_measured
from cgsa.service.trends.levels import measure_piece

SAMPLE_SECONDS = 10.0
"""Time between two pieces of signal of a machine."""
OPEN_MINUTES = 2
"""Newest minutes that are not written yet: a piece begins some seconds before the batch that ended last."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Machine:
    """What is being recorded of one machine."""

    minutes: dict[float, MinuteMeans] = field(default_factory=dict)
    """Minutes that are not written yet by their begin, in the order in which they began."""
    measured: float | None = None
    """Time of the newest piece."""

    def minute(self, time: float) -> MinuteMeans:
        """Return the minute of a time."""
        begin = time // MINUTE * MINUTE
        return self.minutes.setdefault(begin, MinuteMeans(begin))


class TrendRecorder:
    """Records the trends of a plant, while it is started and not closed."""

    def __init__(self, plant: MonitoredPlant, *, seconds: float = SAMPLE_SECONDS) -> None:
        self._plant, self._seconds = plant, seconds
        self._lock = threading.Lock()
        self._machines: dict[str, _Machine] = {}
        self.healthy = HealthySignal(plant.store)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cgsa-trends", daemon=True)
        self._unsubscribe = plant.subscribe(self._receive)

    def sample(self) -> None:
        """Measure the newest signal of every machine, and write the minutes that are over."""
        for name, worker in tuple(self._plant.workers.items()):
            try:
                self._sample(worker)
                self._write(name, keep=OPEN_MINUTES)
            except Exception:  # one machine must not end the trends of the others
                if not self._ended.is_set():
                    _log.exception("%s: its trends have a gap", name)

    def flush(self) -> None:
        """Write the minutes that have begun."""
        for name in tuple(self._machines):
            self._write(name, keep=0)

    def start(self) -> None:
        """Measure the signals from now on."""
        self._thread.start()

    def close(self) -> None:
        """Write what is recorded, and end."""
        self._unsubscribe()
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self.flush()
        except DataError as error:
            _log.warning("%s", error)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self.sample()

    def _receive(self, machine: str, _: int | None, events: tuple[Event, ...]) -> None:
        """Take the events of a machine, in its thread."""
        for event in events:
            if isinstance(event, Diagnosis):
                with self._lock:
                    self._machines.setdefault(machine, _Machine()).minute(event.end).health.add(event)
            elif isinstance(event, Note) and _starts_anew(event):
                self.healthy.renew_later(machine)

    def _sample(self, worker: MonitoredMachine) -> None:
        diagnosis, machine = worker.status().diagnosis, worker.machine
        found = worker.recent_recording()
        if found is None or not is_measured(diagnosis):
            return
        time, recording = found
        with self._lock:
            known = self._machines.setdefault(machine, _Machine())
            if time == known.measured:
                return
            known.measured = time
        levels = measure_piece(recording)
        if levels is None:
            return
        with self._lock:
            known.minute(time).pieces.append(levels)
        self.healthy.offer(worker, time, recording)

    def _write(self, name: str, *, keep: int) -> None:
        """Write all but the newest minutes of a machine, and the hours that they belong to."""
        with self._lock:
            minutes = self._machines[name].minutes if name in self._machines else {}
            done = [minutes.pop(begin) for begin in list(minutes)[: max(0, len(minutes) - keep)]]
        rows = [row for one in done if (row := one.row(name)) is not None]
        store = self._plant.store
        for row in rows:
            store.put_trend(row, KEPT[MINUTE])
        for hour in dict.fromkeys(row.time // HOUR * HOUR for row in rows):
            pick = RowSelection(begin=hour, end=hour + HOUR, limit=MINUTE, newest_first=False)
            with store.read() as snapshot:
                stored = {one.time: one for one in snapshot.trends(name, MINUTE, pick).rows}
            # The store writes in its own time, so the newest may be missing there.
            stored |= {row.time: row for row in rows if row.time // HOUR * HOUR == hour}
            store.put_trend(hour_row([stored[time] for time in sorted(stored)]), KEPT[HOUR])


def _starts_anew(note: Note) -> bool:
    """Return whether a note says that the machine is taken for healthy from now on, such as after a repair."""
    return note.topic == "reset" or (note.topic == "commissioning" and "healthy" in note.details)
