"""Rate, channels and units, which all recordings of a machine have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cgsa.data.importing.progress import ImportedRecording, add_progress
from cgsa.data.readers.own_names import file_token, shared_names, without_token
from cgsa.data.readers.parquet import read_parquet, write_parquet
from cgsa.errors import DataError

MAX_LISTED = 6
"""More kinds than these are counted, not listed."""


def with_common_channels(
    written: Sequence[ImportedRecording], paths: Sequence[Path], folder: Path
) -> list[ImportedRecording]:
    """Give all recordings the channels that all of them have, where they differ, and say so in their notes.

    A channel whose name differs only by the name or number of its file is the same channel.

    Parameters
    ----------
    written, paths
        The recordings, and the files that they were read from.
    folder
        Where they were written; their progress is kept up to date.
    """
    if len({one.channels for one in written}) == 1:
        return list(written)
    short = _names(written, paths)
    common = [name for name in short[0].values() if all(name in names.values() for names in short)]
    if not common:
        return list(written)
    counts = Counter(name for names in short for name in names.values())
    dropped = [f"{name} (in {count} of {len(written)})" for name, count in counts.items() if name not in common]
    found = []
    for one, names in zip(written, short, strict=True):
        notes = []
        if any(name != new for name, new in names.items()):
            notes.append(without_token(common))
        if len(names) > len(common):
            notes.append(f"channels that not all recordings have are left out: {', '.join(dropped)}")
        found.append(_with_channels(one, names, common, notes, folder))
    return found


def check_alike(written: Sequence[ImportedRecording]) -> None:
    """Require equal rates, channels and units; a machine has one of each."""
    for what, values, cure in (
        ("sample rates", [f"{one.sample_rate:g} Hz" for one in written], "pass --resample HZ"),
        (
            "channels",
            [", ".join(one.channels) for one in written],
            "none is in all of them: rename them in the files, or import each kind on its own",
        ),
        ("units", [", ".join(one.units) for one in written], "pass --units"),
    ):
        groups: dict[str, list[str]] = {}
        for value, one in zip(values, written, strict=True):
            groups.setdefault(value, []).append(Path(one.file).stem)
        if len(groups) > 1:
            listed = [f"{value} ({len(names)} files, such as {names[0]})" for value, names in groups.items()]
            more = [f"and {len(listed) - MAX_LISTED} others"] if len(listed) > MAX_LISTED else []
            raise DataError(f"recordings with different {what}: {'; '.join([*listed[:MAX_LISTED], *more])}; {cure}")


def _names(written: Sequence[ImportedRecording], paths: Sequence[Path]) -> list[dict[str, str]]:
    """Return the names of the channels of each recording without what tells its file, by those that they have."""
    short = [shared_names(one.channels, path.stem) for one, path in zip(written, paths, strict=True)]
    tokens = {path: file_token(*next(iter(names.items()))) for path, names in zip(paths, short, strict=True) if names}
    # A number that many files share names something else, such as a sensor.
    tells = 2 * len(set(tokens.values())) > len(tokens)
    return [
        {name: names.get(name, name) if tells else name for name in one.channels}
        for one, names in zip(written, short, strict=True)
    ]


def _with_channels(
    one: ImportedRecording,
    names: dict[str, str],
    common: Sequence[str],
    notes: Sequence[str],
    folder: Path,
) -> ImportedRecording:
    """Return a recording with the common channels under their common names, and write its file anew if they differ."""
    if one.channels == tuple(common):
        return one
    by_new = {new: name for name, new in names.items()}
    path = folder / one.file
    recording = read_parquet(path).select([by_new[name] for name in common])
    notes = [*recording.notes, *notes]
    recording = replace(recording, channels=tuple(common), notes=tuple(notes))
    write_parquet(recording, path)
    done = replace(one, channels=recording.channels, units=recording.units, notes=recording.notes)
    add_progress(folder, done)
    return done
