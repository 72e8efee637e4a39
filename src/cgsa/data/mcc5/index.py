"""Which runs of the MCC5-THU data sets a folder holds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cgsa.data.mcc5.files import Mcc5FileName
from cgsa.data.readers.mcc5_csv import channels_of
from cgsa.data.readers.parquet import stated_channels
from cgsa.errors import DataError


@dataclass(frozen=True)
class RunFile:
    """One run on disk."""

    path: Path
    name: Mcc5FileName
    specimen: int = 1
    """Which assembly of the machine was recorded, according to a folder named ``specimen_<K>``."""
    channels: tuple[str, ...] | None = None
    """Channels that its first bytes state, empty if they state none; None if its name alone identifies it."""


@dataclass(frozen=True)
class RunIndex:
    """The runs in a folder."""

    files: tuple[RunFile, ...]
    """Sorted by path. Each run of a specimen is there once, unless files of several machines have its name."""
    skipped: tuple[Path, ...]
    """Files that are not runs, such as leftovers of archives."""
    notes: tuple[str, ...]
    """Messages about what was left out."""


def find_runs(folder: str | Path) -> RunIndex:
    """Return the runs in a folder and its subfolders.

    If a run exists twice, the first by path counts, so the earlier one if the names contain time stamps. A gearbox
    and a motor may have a run of the same name: their channels tell them apart.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; expected one with MCC5-THU files")
    by_name: defaultdict[tuple[Mcc5FileName, int], list[RunFile]] = defaultdict(list)
    skipped: list[Path] = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        file = _run_file(path, root)
        if file is None:
            skipped.append(path)
        else:
            by_name[file.name, file.specimen].append(file)
    files: list[RunFile] = []
    notes: list[str] = []
    for found in by_name.values():
        for first, *others in _by_machine(found):
            files.append(first)
            notes += [
                f"{one.path.relative_to(root)} is another recording of {first.path.relative_to(root)}; left out"
                for one in others
            ]
    if skipped:
        notes.append(f"skipped {len(skipped)} files that are not runs, such as {skipped[0].relative_to(root)}")
    return RunIndex(tuple(sorted(files, key=lambda file: file.path)), tuple(skipped), tuple(notes))


def _by_machine(files: Sequence[RunFile]) -> Iterator[list[RunFile]]:
    """Yield the files of one name, those with the same channels together."""
    if len(files) == 1:
        yield [*files]
        return
    groups: defaultdict[tuple[str, ...], list[RunFile]] = defaultdict(list)
    for file in files:
        channels = _channels(file.path)
        groups[channels].append(replace(file, channels=channels))
    yield from groups.values()


def _channels(path: Path) -> tuple[str, ...]:
    try:
        return (stated_channels if path.suffix.lower() == ".parquet" else channels_of)(path)
    except (DataError, OSError):
        return ()  # it cannot be read, which matters only if it is needed


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
