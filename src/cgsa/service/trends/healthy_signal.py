"""The healthy signal of a machine: some pieces of its own signal from when it was healthy.

The first piece is taken once the machine has been healthy for a moment. Each further one waits until as much time has
passed since the first as before, so that later pieces cover more of how the machine runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

import numpy as np

from cgsa.data.recording import Recording
from cgsa.live.monitored import MonitoredMachine
from cgsa.live.store import HealthyPiece, Store

PIECES = 8
FIRST_SECONDS = 10.0
"""Time from the first piece to the second; it doubles with each further one."""
SETTLE_SECONDS = 10.0
"""How long a machine must be healthy before a piece is taken."""


class HealthySignal:
    """Takes and keeps the pieces of all machines; usable from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._pieces: dict[str, tuple[HealthyPiece, ...]] = {}
        self._healthy_since: dict[str, float] = {}
        self._renewed: set[str] = set()
        """Machines whose pieces are to be taken anew."""

    def pieces(self, machine: str) -> tuple[HealthyPiece, ...]:
        """Return the pieces of a machine, the oldest first."""
        with self._lock:
            if machine not in self._pieces:
                with self._store.read() as snapshot:
                    self._pieces[machine] = snapshot.healthy_signal(machine)
            return self._pieces[machine]

    def renew(self, machine: str) -> None:
        """Forget the pieces of a machine; they are taken anew while it is healthy."""
        self._store.remove_healthy_signal(machine)
        with self._lock:
            self._pieces[machine] = ()
            self._healthy_since.pop(machine, None)
            self._renewed.discard(machine)

    def renew_later(self, machine: str) -> None:
        """Take the pieces of a machine anew with the next signal; waits for nothing."""
        with self._lock:
            self._renewed.add(machine)

    def offer(self, worker: MonitoredMachine, time: float, recording: Recording) -> None:
        """Take a piece of signal if the machine is healthy and a piece is due."""
        machine = worker.machine
        if machine in self._renewed:
            self.renew(machine)
        if not is_healthy(worker):
            self._healthy_since.pop(machine, None)
            return
        since = self._healthy_since.setdefault(machine, time)
        pieces = self.pieces(machine)
        if time - since < SETTLE_SECONDS or len(pieces) >= PIECES or not is_due(pieces, time):
            return
        piece = HealthyPiece(
            machine,
            time,
            recording.sample_rate,
            recording.channels,
            {name: float(np.mean(trace, dtype=np.float64)) for name, trace in recording.conditions.items()},
            np.ascontiguousarray(recording.signal, np.float32),
        )
        self._store.add_healthy_piece(piece)
        with self._lock:
            self._pieces[machine] = (*self._pieces.get(machine, ()), piece)


def is_due(pieces: tuple[HealthyPiece, ...], time: float) -> bool:
    """Return whether the next piece may be taken at a time."""
    if not pieces:
        return True
    wait = FIRST_SECONDS * 2 ** (len(pieces) - 1)
    # A clock that was set back must not stop it for good.
    return not 0 <= time - pieces[0].time < wait


def is_healthy(worker: MonitoredMachine) -> bool:
    """Return whether a machine is reported healthy, without an open case, and its start is known to be healthy."""
    status = worker.status()
    case, commissioning, diagnosis = status.case, status.commissioning, status.diagnosis
    if diagnosis is None or (case is not None and case.open):
        return False
    if commissioning is not None and commissioning.state != "done":
        return False
    return (diagnosis.state or diagnosis.verdict) == worker.manifest.classes[0]


def as_recordings(pieces: tuple[HealthyPiece, ...], units: Mapping[str, str]) -> list[Recording]:
    """Return pieces as recordings of a healthy machine."""
    return [
        Recording(
            one.samples,
            one.sample_rate,
            one.channels,
            tuple(units.get(name, "") for name in one.channels),
            {name: np.full(one.samples.shape[1], value, np.float32) for name, value in one.conditions.items()},
            label="healthy",
            source=f"healthy piece {number}",
        )
        for number, one in enumerate(pieces, 1)
    ]
