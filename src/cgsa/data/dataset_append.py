"""Adding recordings to a data set that exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import RecordingEntry
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError

Addition = tuple[RecordingEntry, Recording]


def append_recordings(data_set: DataSet, additions: Sequence[Addition]) -> DataSet:
    """Write recordings into a data set, list them in its ``machine.toml``, and return it as it is then.

    Either all of them are added or none. A class that is new comes last. If the additions name their unit and the data
    set names none, its recordings are of one unit with the name of the data set.
    """
    if not additions:
        return data_set
    about, folder = data_set.about, data_set.folder
    for entry, recording in additions:
        _check_fits(data_set, entry, recording)
    new = [entry for entry, _ in additions]
    known = about.recordings
    if all(entry.unit is None for entry in known) and all(entry.unit is not None for entry in new):
        known = tuple(replace(entry, unit=about.name) for entry in known)
    labels = dict.fromkeys([*about.classes, *(entry.label for entry in new)])
    grown = replace(about, classes=tuple(labels), recordings=(*known, *new))
    problems = [problem for _, problem in grown.problems()]
    problems += [f"{entry.file} exists already" for entry in new if (folder / entry.file).exists()]
    if problems:
        raise DataError(f"{folder}: nothing was added: {'; '.join(problems[:3])}")
    written: list[Path] = []
    try:
        for entry, recording in additions:
            written.append(folder / entry.file)
            write_parquet(replace(recording, label=entry.label, mean=None), written[-1])
        # The last step: until the file lists them, the recordings are not part of the data set.
        replace(data_set, about=grown).save()
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return DataSet.load(folder)


def free_file_name(data_set: DataSet, stem: str, used: Sequence[str] = ()) -> str:
    """Return the path below the folder of a new recording: its name, and a number if that is in use."""
    name = "".join(letter if letter.isalnum() or letter in "-_.+ " else "_" for letter in stem)
    taken = {entry.file.casefold() for entry in data_set.about.recordings} | {file.casefold() for file in used}
    number, file = 1, f"recordings/{name}.parquet"
    while file.casefold() in taken or (data_set.folder / file).exists():
        number += 1
        file = f"recordings/{name}_{number}.parquet"
    return file


def _check_fits(data_set: DataSet, entry: RecordingEntry, recording: Recording) -> None:
    about = data_set.about
    channels = tuple((channel.name, channel.unit) for channel in about.channels)
    found = tuple(zip(recording.channels, recording.units, strict=True))
    if found != channels or recording.sample_rate != about.sample_rate:
        raise DataError(
            f"{entry.file}: {', '.join(f'{name} ({unit})' for name, unit in found)} at {recording.sample_rate:g} Hz; "
            f"the data set has {', '.join(f'{name} ({unit})' for name, unit in channels)} at {about.sample_rate:g} Hz"
        )
    missing = [name for name in entry.ranges if name not in recording.conditions]
    if missing:
        raise DataError(f"{entry.file}: a range of {missing[0]}, but no trace of it; expected a trace, or a number")
