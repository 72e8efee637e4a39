"""Faults of the disk: full, or broken."""

from __future__ import annotations

import errno
import os
import time
from typing import ClassVar

from benchmarks.faults.registry import Fault

LONGEST = 10.0
"""Seconds that a store that cannot be written lasts, so that something is written and readiness is asked meanwhile."""


class _DiskFault(Fault):
    code: ClassVar[int]

    def strike(self) -> None:
        """Let every call that changes files of machines fail."""
        seconds = self.rng.uniform(0.3, 2.0) * self.run.patience
        with self.run.switched("disk", self.code):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.run.ask_ready()
                time.sleep(0.05)

    def told(self) -> bool:
        """Either a machine has a note about it, or readiness had the reason."""
        cause = os.strerror(self.code)
        return self.run.was_noted(cause) or any(cause in reason for reason in self.run.reasons)


class FullDisk(_DiskFault):
    """No space is left for journals and states."""

    name = "full disk"
    code = errno.ENOSPC


class BrokenDisk(_DiskFault):
    """Journals and states can be neither read nor written."""

    name = "EIO"
    code = errno.EIO


class FullStore(Fault):
    """The database cannot be written."""

    name = "full store"

    def strike(self) -> None:
        """Let every transaction fail."""
        seconds = self.rng.uniform(0.5, 2.0) * self.run.patience
        with self.run.switched("store", 1):
            begin = time.monotonic()
            while (now := time.monotonic() - begin) < seconds or (not self.told() and now < LONGEST):
                self.run.ask_ready()
                time.sleep(0.05)

    def told(self) -> bool:
        """Readiness had the reason."""
        return "the store cannot be written" in self.run.reasons
