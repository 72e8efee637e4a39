"""How long a machine has sent nothing: the journal has no clock of its own, so commands in it report silence."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cgsa.live.commands import SERVICE, Command
from cgsa.live.watch import Watch


class SilenceTimer:
    """Measures the time since the watch of a machine last used a block."""

    def __init__(self) -> None:
        self.used_time = time.monotonic()
        """When the watch last used a block."""
        self._reported = 0
        """Reports of silence since then."""

    def restart(self) -> None:
        """Note that a block was used."""
        self.used_time, self._reported = time.monotonic(), 0

    def due_commands(self, watch: Watch) -> Iterator[Command]:
        """Yield the commands that are due; a report counts once the next one is asked for."""
        silent = time.monotonic() - self.used_time
        bursts = watch.config.intermittent
        if bursts is not None and silent > bursts.settle and watch.signal.holds_windows:
            yield Command("end_recording", SERVICE)
        reports = self._reported + 1
        if silent > watch.config.silence_seconds * reports and watch.counts.blocks:
            yield Command("silence", SERVICE, details={"seconds": silent})
            self._reported = reports
