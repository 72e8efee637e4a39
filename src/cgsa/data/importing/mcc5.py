"""Import of a folder of MCC5-THU files, or of files that ``cgsa simulate`` wrote."""

from __future__ import annotations

from pathlib import Path

from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.mcc5.files import HEALTHY, Mcc5FileName
from cgsa.data.mcc5.index import RunFile, RunIndex, find_runs
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.errors import DataError

KEY_PHASE = "key_phase"
"""Pulses of the shaft, from which the speed was computed: no signal of the machine."""


def has_mcc5_runs(folder: Path) -> bool:
    """Return whether a folder has files with the names of MCC5-THU."""
    return bool(find_runs(folder).files)


def plan_mcc5(folder: Path, *, healthy: str | None = None, options: ReadOptions | None = None) -> ImportPlan:
    """Return the plan for a folder: torque and speed are measured, and every severity of a fault is the same class."""
    index = find_runs(folder)
    _require_one_machine(index)
    given = options or ReadOptions()
    pulses = given.channels is None

    def read(found: FoundRecording) -> Recording:
        recording = read_recording(found.path) if given == ReadOptions() else given.read(found.path)
        if pulses and KEY_PHASE in recording.channels:
            return recording.select([name for name in recording.channels if name != KEY_PHASE])
        return recording

    left_out = (f"channel {KEY_PHASE} is left out: its pulses give the speed; --channels chooses otherwise",)
    return ImportPlan(
        folder.resolve().name,
        tuple(map(_found, index.files)),
        read,
        healthy or (HEALTHY if any(file.name.state == HEALTHY for file in index.files) else None),
        {"torque": "Nm", "speed": "rpm"},
        settings=(repr(given),),
        notes=(*index.notes, *(left_out if pulses else ())),
    )


def _require_one_machine(index: RunIndex) -> None:
    """Refuse a folder in which two machines have a run of the same name, since a data set is of one machine."""
    by_name: dict[tuple[Mcc5FileName, int], RunFile] = {}
    for file in index.files:
        first = by_name.setdefault((file.name, file.specimen), file)
        if first is not file:
            raise DataError(
                f"{first.path} and {file.path} have the name of one run and different channels; put the files of each "
                f"machine into a folder of its own, and import that"
            )


def _found(file: RunFile) -> FoundRecording:
    severity = f" {file.name.severity}" if file.name.severity else ""
    # Runs are programmes of one assembly, so that they are no specimens: the unit is.
    return FoundRecording(
        file.path, file.name.state, {}, f"specimen {file.specimen}", f"{file.name.run.name}{severity}"
    )
