"""Libraries that read the recordings of a scenario from a folder of files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import is_data_set
from cgsa.data.mcc5.files import RunFile, find_runs
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.data.run import Run, Severity
from cgsa.data.scenario import Scenario
from cgsa.data.steady_state import META_FILE, SteadyStateLibrary
from cgsa.errors import DataError

CACHED_RECORDINGS = 8
"""A scenario cuts several segments out of one run, so that a run is read or simulated once."""


class FolderLibrary:
    """Recordings in a folder of MCC5-THU files or files written by ``cgsa simulate``.

    The folder is searched recursively. ``train_on`` has the numbers of the specimens that training may use; by default
    all of them.
    """

    def __init__(self, folder: str | Path, *, train_on: Sequence[int] | None = None) -> None:
        self.folder = Path(folder)
        self._train_on = train_on
        index = find_runs(self.folder)
        if not index.files:
            raise DataError(
                f"{self.folder}: no run found; expected files such as gear_wear_H_torque_circulation_1000rpm_10Nm.csv, "
                f"or a {META_FILE} that lists recordings"
            )
        self.files = index.files
        self.notes = index.notes
        self._read = lru_cache(maxsize=CACHED_RECORDINGS)(read_recording)

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that training may use."""
        return self._train_on or sorted({file.specimen for file in self.files})

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        """Return all of them: every specimen needs every run, and :meth:`get` reports a missing file."""
        del state, run
        return self.specimens()

    def get(self, state: str, run: str, *, severity: Severity, specimen: int) -> Recording:
        """Read one run; if the requested severity is missing, the highest available one."""
        requested = Run.parse(run)
        same_run = [file for file in self.files if file.name.run == requested and file.specimen == specimen]
        by_severity = {file.name.severity: file for file in same_run if file.name.state == state}
        if not by_severity:
            raise DataError(
                f"{self.folder}: no {requested.name} of {state}, specimen {specimen}; "
                f"available for that run: {_states(same_run)}"
            )
        order = (severity, None, "H", "M", "L")
        return self._read(next(by_severity[size].path for size in order if size in by_severity))


def open_library(
    folder: str | Path, scenario: Scenario, *, train_on: Sequence[int] | None = None
) -> FolderLibrary | SteadyStateLibrary | DataSet:
    """Return the library for a folder: a data set, a set of steady-state recordings (``meta.json``), or runs.

    The scenario gives the sample rate of a set that does not state its own. ``train_on`` has the numbers of the
    specimens that training may use; by default all of them.
    """
    if is_data_set(folder):
        return DataSet.load(folder).restricted_to(train_on)
    if (Path(folder) / META_FILE).is_file():
        return SteadyStateLibrary(folder, assumed_rate=scenario.sample_rate, train_on=train_on)
    return FolderLibrary(folder, train_on=train_on)


def _states(files: Sequence[RunFile]) -> str:
    names = sorted({"_".join(filter(None, (file.name.state, file.name.severity))) for file in files})
    return ", ".join(names) or "nothing"
