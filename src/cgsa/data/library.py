"""Recordings of a scenario that are read from a folder of files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cgsa.data.mcc5 import RunFile, find_runs
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.data.run import Run
from cgsa.data.scenario import Scenario
from cgsa.data.steady_state import META, SteadyStateLibrary
from cgsa.errors import DataError

CACHED_RECORDINGS = 8
"""A scenario cuts several segments out of one run; reading or simulating it once is enough."""


class FolderLibrary:
    """Recordings in a folder: MCC5-THU files, or what ``cgsa simulate`` wrote.

    Parameters
    ----------
    folder
        Searched with its subfolders.
    train_on
        Numbers of the specimens that training may use; none means all that are there.
    """

    def __init__(self, folder: str | Path, *, train_on: Sequence[int] | None = None) -> None:
        self.folder = Path(folder)
        self._train_on = train_on
        index = find_runs(self.folder)
        if not index.files:
            raise DataError(
                f"{self.folder}: no run found; expected files such as gear_wear_H_torque_circulation_1000rpm_10Nm.csv, "
                f"or a {META} that lists recordings"
            )
        self.files = index.files
        self.notes = index.notes
        self._read = lru_cache(maxsize=CACHED_RECORDINGS)(read_recording)

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that training may use."""
        return self._train_on or sorted({file.specimen for file in self.files})

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        """Read one run; where the severity asked for is not there, the gravest one that is."""
        wanted = Run.parse(run)
        same_run = [file for file in self.files if file.name.run == wanted and file.specimen == specimen]
        fitting = {file.name.severity: file for file in same_run if file.name.state == state}
        if not fitting:
            raise DataError(
                f"{self.folder}: no {wanted.name} of {state}, specimen {specimen}; "
                f"of that run it has {_states(same_run)}"
            )
        order = (severity, None, "H", "M", "L")
        return self._read(next(fitting[size].path for size in order if size in fitting))


def open_library(
    folder: str | Path, scenario: Scenario, *, train_on: Sequence[int] | None = None
) -> FolderLibrary | SteadyStateLibrary:
    """Return the library that fits a folder: with a ``meta.json`` in it, it is a set of steady recordings.

    Parameters
    ----------
    folder
        Where the recordings are.
    scenario
        Says which rate to assume of a set that does not know its own.
    train_on
        Numbers of the specimens that training may use; a set of steady recordings has but one.
    """
    if (Path(folder) / META).is_file():
        return SteadyStateLibrary(folder, assumed_rate=scenario.sample_rate)
    return FolderLibrary(folder, train_on=train_on)


def _states(files: Sequence[RunFile]) -> str:
    names = sorted({"_".join(filter(None, (file.name.state, file.name.severity))) for file in files})
    return ", ".join(names) or "nothing"
