"""Shortage of open handles."""

from __future__ import annotations

import errno
import os
import time

from benchmarks.faults.registry import Fault


class NoHandles(Fault):
    """The process may open nothing more; the limit is a real one, so that the web server feels it, too."""

    name = "EMFILE"

    def strike(self) -> None:
        """Lower the limit for a while."""
        with self.run.switched("handles", 1):
            time.sleep(self.rng.uniform(1.0, 2.5) * self.run.patience)

    def told(self) -> bool:
        """A machine has a note, or senders got no answer: the web server could not accept them."""
        return self.run.was_noted(os.strerror(errno.EMFILE)) or self.run.unanswered > 0
