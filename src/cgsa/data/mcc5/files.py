"""Files of the MCC5-THU data sets: what their names say, and which runs a folder holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cgsa.data.run import SEVERITIES, Run, Severity
from cgsa.errors import DataError

HEALTHY = "health"
"""The state that has no severity."""


@dataclass(frozen=True)
class Mcc5FileName:
    """What the name of a file says about its recording."""

    state: str
    """State of the machine without its severity, such as ``gear_wear``; a compound fault is one state."""
    severity: Severity | None
    run: Run

    @classmethod
    def parse(cls, name: str) -> Mcc5FileName:
        """Parse a file name of either data set.

        The name of a motor's compound fault gives the severity of each part. If
        all agree, it is removed from the state; otherwise the state keeps them.

        >>> Mcc5FileName.parse("gear_wear_H_torque_circulation_1000rpm_10Nm.csv").state
        'gear_wear'
        >>> Mcc5FileName.parse("bearing_outer_H_and_inner_H_speed_circulation_20Nm_3000rpm_230412101530d.csv").state
        'bearing_outer_and_inner'
        """
        match = re.fullmatch(
            r"(?P<state>[a-z]\w*?)_(speed|torque)_circulation_"
            r"(\d+Nm[-_]\d+rpm|\d+rpm[-_]\d+Nm)([-_]\d{12}[a-z]?)?(\.\w+)?",
            name,
        )
        if match is None:
            raise DataError(
                f"{name!r} is not an MCC5-THU name; expected something like "
                f"'gear_wear_H_torque_circulation_1000rpm_10Nm.csv'"
            )
        state = match["state"].replace("teeth_break_single", "teeth_break")
        letters = set(re.findall(r"_([LMH])(?=_|$)", state))
        severity = next((severity for severity in SEVERITIES if letters == {severity}), None)
        if severity is not None:
            state = re.sub(rf"_{severity}(?=_|$)", "", state)
        return cls(state, severity, Run.parse(name))


def file_name(machine: str, state: str, severity: Severity | None, run: Run) -> str:
    """Return the name, without suffix, that the data set gives to a run; all but the gearbox follow the motor.

    >>> file_name("motor", "bearing_ball", "H", Run("torque", 40, 2000))
    'bearing_ball_H_torque_circulation_40Nm_2000rpm'
    """
    torque, speed = f"{run.torque}Nm", f"{run.speed}rpm"
    if machine == "gearbox":
        level = f"{torque}-{speed}" if run.kind == "speed" else f"{speed}_{torque}"
    else:
        level = f"{torque}_{speed}"
    parts = [state, None if state == HEALTHY else severity, run.kind, "circulation", level]
    return "_".join(part for part in parts if part)


@dataclass(frozen=True)
class RunFile:
    """One run on disk."""

    path: Path
    name: Mcc5FileName
    specimen: int = 1
    """Which assembly of the machine was recorded, according to a folder named ``specimen_<K>``."""


@dataclass(frozen=True)
class RunIndex:
    """The runs of one data set."""

    files: tuple[RunFile, ...]
    """Sorted by path, each run once."""
    skipped: tuple[Path, ...]
    """Files that are not runs, such as leftovers of archives."""
    notes: tuple[str, ...]
    """Messages about what was left out."""


def find_runs(folder: str | Path) -> RunIndex:
    """Return the runs in a folder and its subfolders.

    If a run exists twice, the first by path counts, so the earlier one if the
    names contain time stamps.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; expected one with MCC5-THU files")
    found: dict[tuple[Mcc5FileName, int], RunFile] = {}
    skipped: list[Path] = []
    notes: list[str] = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        file = _run_file(path, root)
        if file is None:
            skipped.append(path)
            continue
        first = found.setdefault((file.name, file.specimen), file)
        if first is not file:
            notes.append(f"{path.relative_to(root)} is another recording of {first.path.relative_to(root)}; left out")
    if skipped:
        notes.append(f"skipped {len(skipped)} files that are not runs, such as {skipped[0].relative_to(root)}")
    return RunIndex(tuple(found.values()), tuple(skipped), tuple(notes))


def _run_file(path: Path, root: Path) -> RunFile | None:
    parts = path.relative_to(root).parts
    # Archives made on a Mac contain a resource fork per file, whose name is that of the file after "._".
    if "__MACOSX" in parts or path.name.startswith(".") or path.suffix.lower() not in {".csv", ".parquet"}:
        return None
    try:
        name = Mcc5FileName.parse(path.name)
    except DataError:
        return None
    # The given folder may itself be that of a specimen.
    numbers = [int(match[1]) for part in path.absolute().parts if (match := re.fullmatch(r"specimen_(\d+)", part))]
    return RunFile(path, name, numbers[-1] if numbers else 1)
