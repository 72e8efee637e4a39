"""Processes that are killed: the service itself, and the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.faults.registry import Fault

if TYPE_CHECKING:
    from benchmarks.faults.run import FaultRun


class KilledService(Fault):
    """The service is killed and started again, as a supervisor does."""

    name = "killed process"
    own_restarts = 1

    def strike(self) -> None:
        """Kill it, and wait until it answers again."""
        self.run.restart_service()
        time.sleep(self.rng.uniform(0.2, 0.6) * self.run.patience)

    def told(self) -> bool:
        """Senders noticed that nobody answered."""
        return self.run.unanswered > 0


class KilledBroker(Fault):
    """The broker is killed and started again; what it had not passed on yet is lost."""

    name = "killed broker"

    @classmethod
    def applies(cls, run: FaultRun) -> bool:
        """Only where a broker could be started."""
        return run.broker is not None

    def strike(self) -> None:
        """Kill it, and start it after a pause."""
        self.run.restart_broker(self.rng.uniform(0.1, 0.5) * self.run.patience)
        time.sleep(self.rng.uniform(0.5, 1.0) * self.run.patience)

    def told(self) -> bool:
        """The machines behind it have a note, unless the service was down at the same time."""
        return self.run.was_noted("mqtt mqtt is down") or self.run.restarts > 0
