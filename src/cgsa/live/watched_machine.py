"""What a watch shows of its machine, besides its status."""

from __future__ import annotations

from abc import ABC, abstractmethod

from cgsa.data.recording import Recording
from cgsa.live.intake.block import Block
from cgsa.live.watch import Watch, WatchConfig
from cgsa.nn.bundle import Manifest


class WatchedMachine(ABC):
    """A machine whose watch is in this process."""

    @property
    @abstractmethod
    def watch(self) -> Watch:
        """The watch."""

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return self.watch.machine

    @property
    def manifest(self) -> Manifest:
        """Manifest of its model."""
        return self.watch.bundle.manifest

    @property
    def watch_config(self) -> WatchConfig:
        """How it is watched."""
        return self.watch.config

    @property
    def now(self) -> float:
        """Time of its newest sample, in seconds since 1970."""
        return self.watch.now

    @property
    def newest_block(self) -> Block | None:
        """Its newest accepted block; None before the first."""
        return self.watch.latest

    def recent_recording(self) -> tuple[float, Recording] | None:
        """Return its newest signal and the time of the first sample; None if there is none."""
        return self.watch.recent.recording(dict(zip(self.manifest.channels, self.manifest.units, strict=True)))
