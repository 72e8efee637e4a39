"""Library that simulates the recordings of a scenario on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cgsa.data.library import CACHED_RECORDINGS
from cgsa.data.recording import Recording
from cgsa.data.run import Run, Severity
from cgsa.rigs import RIGS


class RigLibrary:
    """Recordings of a simulated rig, simulated on demand.

    ``specimens`` is the number of assemblies of each state; ``seed`` determines what differs from run to run.
    """

    def __init__(self, rig: str, *, specimens: int = 3, seed: int = 0) -> None:
        self._rig = RIGS[rig]()
        self._specimens = specimens
        self._seed = seed
        self._simulate = lru_cache(maxsize=CACHED_RECORDINGS)(self._rig.simulate)

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens."""
        return range(1, self._specimens + 1)

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        """Return all of them: a rig simulates every run of every specimen."""
        del state, run
        return self.specimens()

    def get(self, state: str, run: str, *, severity: Severity, specimen: int) -> Recording:
        """Simulate one run of one specimen."""
        return self._simulate(state, Run.parse(run), severity=severity, specimen=specimen, seed=self._seed)
