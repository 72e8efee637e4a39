"""Writing a data set: resumable, and never half of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import ChannelEntry, ConditionEntry, MachineFile, RecordingEntry, is_data_set
from cgsa.data.importing.alike import check_alike, with_common_channels
from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.importing.progress import PROGRESS, ImportedRecording, add_progress, read_progress
from cgsa.data.intervals import SMOOTHING_SECONDS
from cgsa.data.levels import unit_of
from cgsa.data.readers.parquet import stated_channels, write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError

RECORDINGS = "recordings"
MAX_PROBLEMS = 10
"""More problems than these are counted, not listed."""


@dataclass(frozen=True)
class ImportResult:
    """A data set as it was written."""

    data_set: DataSet
    recordings: tuple[ImportedRecording, ...]
    damaged: tuple[str, ...]
    """Errors about the files that were left out."""


def check_target(folder: Path, *, replace_existing: bool) -> None:
    """Fail if a folder may not be written."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not is_data_set(folder):
        raise DataError(f"{folder}: exists and is no data set; choose another folder")
    if not replace_existing:
        raise DataError(
            f"{folder}: a data set is there already; pass --replace to replace it, or choose another folder"
        )


def write_data_set(
    plan: ImportPlan,
    folder: Path,
    *,
    replace_existing: bool = False,
    skip_damaged: bool = False,
    on_progress: Callable[[int, str], None] | None = None,
    inspect: Callable[[DataSet], None] | None = None,
) -> ImportResult:
    """Read every recording of a plan and write them into a folder.

    The folder appears when it is complete. An interrupted call leaves its work beside it, from which the next resumes.

    Parameters
    ----------
    plan, folder
        What to write, and where.
    replace_existing
        Whether a data set that is in the folder is replaced.
    skip_damaged
        Whether recordings that cannot be read are left out; by default nothing is written then.
    on_progress
        Receives the number of recordings done and the name of the last one.
    inspect
        Receives the complete data set before it appears, and may raise an error.
    """
    check_target(folder, replace_existing=replace_existing)
    classes = plan.classes
    temporary = folder.with_name(f".{folder.name}.importing")
    report = on_progress or (lambda *_: None)
    written: list[ImportedRecording] = []
    read: list[FoundRecording] = []
    damaged: list[str] = []
    known = read_progress(temporary)
    for number, (found, file) in enumerate(zip(plan.recordings, _file_names(plan), strict=True), start=1):
        key = _key(found, plan)
        try:
            done = known.get(file)
            if done is None or done.key != key or not _is_written(done, temporary):
                done = _write(plan.read(found), found, temporary / file, key=key, file=file)
                add_progress(temporary, done)
        except DataError as error:
            damaged.append(str(error))
        else:
            written.append(done)
            read.append(found)
        report(number, found.path.name)
    if damaged and not skip_damaged:
        raise DataError(f"{_listed(damaged)}\nrepair or remove them, or leave them out with --skip-damaged")
    if not written:
        raise DataError(f"none of the recordings can be read: {_listed(damaged)}")
    written = with_common_channels(written, [found.path for found in read], temporary)
    check_alike(written)
    entries = [_entry(found, done) for found, done in zip(read, written, strict=True)]
    about = MachineFile(
        name=plan.name,
        sample_rate=written[0].sample_rate,
        classes=tuple(name for name in classes if any(entry.label == name for entry in entries)),
        channels=tuple(map(ChannelEntry, written[0].channels, written[0].units)),
        conditions=_conditions(plan, entries),
        recordings=tuple(entries),
    )
    problems = [problem for _, problem in about.problems()]
    if problems:
        raise DataError(_listed(problems))
    draft = DataSet(temporary, about)
    if inspect is not None:
        inspect(draft)
    draft.save()
    (temporary / PROGRESS).unlink()
    _move(temporary, folder, {entry.file for entry in entries})
    return ImportResult(DataSet.load(folder), tuple(written), tuple(damaged))


def _is_written(done: ImportedRecording, folder: Path) -> bool:
    """Return whether the file of a recording is as it was noted; an interruption may have come between."""
    path = folder / done.file
    return path.is_file() and stated_channels(path) == done.channels


def _file_names(plan: ImportPlan) -> Iterator[str]:
    """Yield the path of each recording below the folder: its old name, and a number where two have the same."""
    used: set[str] = set()
    for found in plan.recordings:
        stem = "".join(letter if letter.isalnum() or letter in "-_.+ " else "_" for letter in found.name)
        name, number = stem, 1
        # Some file systems do not tell upper from lower case.
        while name.casefold() in used:
            number += 1
            name = f"{stem}_{number}"
        used.add(name.casefold())
        yield f"{RECORDINGS}/{name}.parquet"


def _key(found: FoundRecording, plan: ImportPlan) -> str:
    try:
        state = found.path.stat()
    except OSError as error:
        raise DataError(f"{found.path}: cannot be read ({error.strerror})") from error
    return json.dumps([found.origin, state.st_size, state.st_mtime_ns, found.label, *plan.settings])


def _write(recording: Recording, found: FoundRecording, path: Path, *, key: str, file: str) -> ImportedRecording:
    measured = {name: trace for name, trace in recording.conditions.items() if name not in found.conditions}
    if recording.samples == 0:
        raise DataError(f"{found.path}: no samples; expected a recording")
    stored = replace(recording, conditions=measured, label=found.label, mean=None)
    write_parquet(stored, path)
    ranges = {name: _range(trace, recording.sample_rate) for name, trace in measured.items()}
    return ImportedRecording(
        key,
        file,
        recording.sample_rate,
        recording.channels,
        recording.units,
        ranges,
        recording.samples,
        recording.notes,
    )


def _range(trace: np.ndarray[tuple[int], np.dtype[np.float32]], rate: float) -> tuple[float, float]:
    """Return the lowest and highest mean over a short time."""
    width = max(1, min(round(SMOOTHING_SECONDS * rate), len(trace)))
    means = trace[: len(trace) // width * width].reshape(-1, width).mean(axis=1, dtype=np.float64)
    # Digits beyond these are noise, and hard to read.
    low, high = (float(f"{value:.4g}") for value in (means.min(), means.max()))
    return low, high


def _entry(found: FoundRecording, done: ImportedRecording) -> RecordingEntry:
    conditions: dict[str, object] = {**found.conditions, **done.ranges}
    return RecordingEntry(done.file, found.label, conditions, found.unit, found.run, found.origin, found.split)


def _conditions(plan: ImportPlan, entries: list[RecordingEntry]) -> tuple[ConditionEntry, ...]:
    names = dict.fromkeys(name for entry in entries for name in entry.conditions)
    return tuple(ConditionEntry(name, plan.condition_units.get(name, unit_of(name))) for name in names)


def _move(temporary: Path, folder: Path, files: set[str]) -> None:
    """Put a complete data set in place of whatever was there."""
    for path in (temporary / RECORDINGS).iterdir():
        # Left by an interrupted import of other files.
        if f"{RECORDINGS}/{path.name}" not in files:
            path.unlink()
    old = folder.with_name(f".{folder.name}.replaced")
    try:
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror}); the recordings are in {temporary}") from error
    shutil.rmtree(old, ignore_errors=True)


def _listed(problems: list[str]) -> str:
    more = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
    return "\n".join([*problems[:MAX_PROBLEMS], *more])
