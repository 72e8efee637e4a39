"""What a fault is, and which ones there are."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from benchmarks.faults.run import FaultRun

FAMILIES = ("clients", "disk", "handles", "processes", "requests")
"""Modules with faults."""
FAULTS: dict[str, type[Fault]] = {}


class Fault(ABC):
    """Something that befalls a running service and is over after a while."""

    name: ClassVar[str]
    own_restarts: ClassVar[int] = 0
    """How often it restarts the service itself."""
    cut_short = False
    """Whether the service was restarted meanwhile, so that what it had not reported yet is lost."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "name"):
            FAULTS[cls.name] = cls

    def __init__(self, run: FaultRun, rng: random.Random) -> None:
        self.run, self.rng = run, rng

    @classmethod
    def applies(cls, run: FaultRun) -> bool:
        """Return whether it can befall this run; a broker cannot be killed where there is none."""
        return bool(run.names)

    @abstractmethod
    def strike(self) -> None:
        """Let it happen; return when it is over."""

    @abstractmethod
    def told(self) -> bool:
        """Return whether the service reported it; asked when the run is over."""


def load_faults() -> dict[str, type[Fault]]:
    """Return all faults by their names."""
    for family in FAMILIES:
        import_module(f"benchmarks.faults.{family}")
    return FAULTS
