"""Libraries that read the recordings of a scenario from a folder of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import is_data_set
from cgsa.data.mcc5.index import RunFile, find_runs
from cgsa.data.readers import read_recording
from cgsa.data.readers.mcc5_csv import is_mcc5
from cgsa.data.recording import Recording
from cgsa.data.run import Run, Severity
from cgsa.data.scenario import Scenario
from cgsa.data.steady_state import META_FILE, SteadyStateLibrary
from cgsa.errors import DataError

CACHED_RECORDINGS = 8
"""A scenario cuts several segments out of one run, so that a run is read or simulated once."""


ARCHIVES = (".zip", ".rar", ".7z", ".tar", ".gz", ".xz")


class FolderLibrary:
    """Recordings in a folder of MCC5-THU files or files written by ``cgsa simulate``.

    The folder is searched recursively. ``train_on`` has the numbers of the specimens that training may use; by default
    all of them. ``channels`` are those that every recording must have; they tell a gearbox from a motor if both have a
    run of the same name.
    """

    def __init__(
        self, folder: str | Path, *, train_on: Sequence[int] | None = None, channels: Sequence[str] = ()
    ) -> None:
        self.folder = Path(folder)
        self._train_on = train_on
        self._channels = frozenset(channels)
        index = find_runs(self.folder)
        if not index.files:
            archives = [path for path in index.skipped if path.suffix.lower() in ARCHIVES]
            raise DataError(
                f"{self.folder}: no run found; expected files such as gear_wear_H_torque_circulation_1000rpm_10Nm.csv, "
                f"or a {META_FILE} that lists recordings" + (f"; unpack {archives[0]} first" if archives else "")
            )
        self.files = index.files
        self.notes = index.notes
        self._read = lru_cache(maxsize=CACHED_RECORDINGS)(_read_run)

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that training may use."""
        return self._train_on or sorted({file.specimen for file in self.files})

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        """Return all of them: every specimen needs every run, and :meth:`get` reports a missing file."""
        del state, run
        return self.specimens()

    def get(self, state: str, run: str, *, severity: Severity, specimen: int) -> Recording:
        """Read one run; if the requested severity is missing, the highest available one, with a note."""
        file = self._find(state, Run.parse(run), severity, specimen)
        recording = self._read(file.path)
        missing = sorted(self._channels.difference(recording.channels))
        if missing:
            raise DataError(
                f"{file.path}: no channel {', '.join(missing)}; it has {', '.join(recording.channels)}, so it "
                f"seems to be of another machine; put the files of each machine into a folder of its own, and pass that"
            )
        if file.name.severity in {severity, None}:
            return recording
        note = f"severity {file.name.severity} is used instead of {severity}, of which there is no file"
        return replace(recording, notes=(*recording.notes, note))

    def _find(self, state: str, run: Run, severity: Severity, specimen: int) -> RunFile:
        same_run = [file for file in self.files if file.name.run == run and file.specimen == specimen]
        of_state = [file for file in same_run if file.name.state == state]
        if not of_state:
            raise DataError(
                f"{self.folder}: no {run.name} of {state}, specimen {specimen}; "
                f"available for that run: {_states(same_run)}; add the file, which `cgsa scenarios SCENARIO` lists by "
                f"its name, or change the scenario"
            )
        # A file that states no channels may be of any machine; if it is the only one, reading it shows that.
        fitting = [file for file in of_state if not file.channels or self._channels.issubset(file.channels)]
        available = {file.name.severity for file in fitting or of_state}
        chosen = next(size for size in (severity, None, "H", "M", "L") if size in available)
        first, *others = [file for file in fitting or of_state if file.name.severity == chosen]
        if others:
            raise DataError(
                f"{first.path} and {others[0].path} are both {run.name} of {state}, specimen {specimen}, and their "
                f"columns do not tell the machines apart; put the files of each machine into a folder of its own, and "
                f"pass that"
            )
        return first


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
    return FolderLibrary(folder, train_on=train_on, channels=scenario.channels)


def _read_run(path: Path) -> Recording:
    try:
        return read_recording(path)
    except DataError as error:
        if path.suffix.lower() != ".csv" or is_mcc5(path):
            raise
        raise DataError(f"{error}; a file of MCC5-THU has columns separated by commas: download it again") from error


def _states(files: Sequence[RunFile]) -> str:
    names = sorted({"_".join(filter(None, (file.name.state, file.name.severity))) for file in files})
    return ", ".join(names) or "nothing"
