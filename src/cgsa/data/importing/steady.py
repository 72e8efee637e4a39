"""Import of a set of steady-state recordings, which a ``meta.json`` describes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cgsa.data.dataset_selection import natural_order
from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.recording import Recording
from cgsa.data.steady_state import META_FILE, SteadyStateLibrary


def is_steady_state(folder: Path) -> bool:
    """Return whether a folder is a set of steady-state recordings."""
    return (folder / META_FILE).is_file()


def states_rate(folder: Path) -> bool:
    """Return whether a set states its sample rate."""
    return not SteadyStateLibrary(folder, assumed_rate=1.0).notes


def plan_steady_state(folder: Path, *, sample_rate: float | None = None, healthy: str | None = None) -> ImportPlan:
    """Return the plan for a set; ``sample_rate`` counts only if the set states none."""
    library = SteadyStateLibrary(folder, assumed_rate=sample_rate)
    files = {file.path: file for file in sorted(library.files, key=lambda file: natural_order(file.path.name))}
    repeated = any(file.specimen > 1 for file in files.values())

    def read(found: FoundRecording) -> Recording:
        file = files[found.path]
        recording = library.get(file.state, file.run, severity="H", specimen=file.specimen)
        return replace(recording, conditions={})

    recordings = [
        FoundRecording(
            file.path,
            file.state,
            file.conditions,
            unit=file.unit,
            run=str(file.specimen) if repeated and file.unit is None else None,
        )
        for file in files.values()
    ]
    return ImportPlan(
        folder.resolve().name,
        tuple(recordings),
        read,
        healthy,
        settings=(f"{library.sample_rate:g}",),
        notes=library.notes,
    )
