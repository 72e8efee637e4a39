"""From a path to labelled recordings: data sets, sets of steady-state recordings, runs of MCC5-THU, or plain files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cgsa.check.recordings import LabelledRecording
from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import is_data_set
from cgsa.data.mcc5.index import find_runs
from cgsa.data.readers import open_signal, read_recording
from cgsa.data.recording import Recording
from cgsa.data.steady_state import META_FILE, UNKNOWN_UNIT, SteadyStateLibrary
from cgsa.errors import DataError


def recordings_below(path: str | Path, *, sample_rate: float | None = None) -> list[LabelledRecording]:
    """Return the recordings of a data set, a set of steady-state recordings, a folder of runs, or other files.

    Nothing is read yet. ``sample_rate`` is in Hz, for files that state none.
    """
    place = Path(path)
    if place.is_file():
        return [of_file(place, sample_rate)]
    if is_data_set(place):
        return of_data_set(DataSet.load(place))
    if (place / META_FILE).is_file():
        return of_steady_state(SteadyStateLibrary(place, assumed_rate=sample_rate))
    if not place.is_dir():
        raise DataError(f"{place}: no such file or folder; expected recordings")
    runs = of_runs(place)
    files = sorted(file for file in place.rglob("*") if file.is_file() and not file.name.startswith("."))
    if not (runs or files):
        raise DataError(f"{place}: holds no files; expected recordings")
    return runs or [of_file(file, sample_rate, str(file.relative_to(place))) for file in files]


def of_data_set(data: DataSet) -> list[LabelledRecording]:
    """Return the recordings of a data set."""
    return [
        LabelledRecording(
            one.entry.file,
            _reading(partial(data.read, one.entry)),
            one.entry.label,
            one.entry.levels or None,
            one.point,
            one.entry.unit,
            one.entry.run,
            one.entry.split or "train",
        )
        for one in data.selected
    ]


def of_steady_state(library: SteadyStateLibrary) -> list[LabelledRecording]:
    """Return the recordings of a set of steady-state recordings; without units, its repetitions are sessions."""
    repeated = len({file.specimen for file in library.files}) > 1
    return [
        LabelledRecording(
            file.path.name,
            _reading(partial(library.get, file.state, file.run, severity="H", specimen=file.specimen)),
            file.state,
            file.conditions,
            file.run,
            file.unit,
            f"repetition {file.specimen}" if repeated and file.unit is None else None,
        )
        for file in library.files
    ]


def of_runs(folder: Path) -> list[LabelledRecording]:
    """Return the runs of MCC5-THU, or of a simulated rig, in a folder; none if there is no such file."""
    return [
        LabelledRecording(
            str(file.path.relative_to(folder)),
            _reading(partial(read_recording, file.path)),
            file.name.state,
            point=file.name.run.name,
            unit=f"specimen {file.specimen}",
        )
        for file in find_runs(folder).files
    ]


def of_file(path: Path, sample_rate: float | None = None, name: str | None = None) -> LabelledRecording:
    """Return the recording in a file, which is read block by block; nothing is known of it but what the file states."""

    def parts() -> Iterator[Recording]:
        file = open_signal(path)
        rate = file.sample_rate or sample_rate
        if rate is None:
            raise DataError(f"{path}: {file.why_without_rate}; pass it with --rate")
        rows = [row for row, channel in enumerate(file.channels) if channel not in file.conditions]
        offset = 0
        for block in file.blocks():
            yield Recording(
                block[rows],
                rate,
                tuple(file.channels[row] for row in rows),
                tuple(file.units[row] or UNKNOWN_UNIT for row in rows),
                {channel: block[row] for row, channel in enumerate(file.channels) if channel in file.conditions},
                source=file.source,
                offset=offset,
                notes=file.notes,
            )
            offset += block.shape[1]

    return LabelledRecording(name or path.name, parts)


def _reading(read: Callable[[], Recording]) -> Callable[[], Sequence[Recording]]:
    return lambda: (read(),)
