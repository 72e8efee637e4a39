"""Options of commands that read files of signals: what a file does not state itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cgsa.data.recording import Recording

Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="HZ", help="Sample rate of files that state none."),
]
Channels = Annotated[
    str | None,
    typer.Option(
        "--channels",
        metavar="NAMES",
        help="Channels to read, separated by commas: [b]ax,ay[/b], or with new names: [b]ax=motor_x,ay=motor_y[/b]. "
        "For files that state no names, one name per column.",
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        "--units",
        metavar="UNITS",
        help="Unit of all channels, or one per channel separated by commas, such as [b]g,g,A[/b]; channels with "
        "another unit are converted.",
    ),
]
Array = Annotated[
    str | None,
    typer.Option("--array", metavar="NAME", help="Array, group or record to read in files that hold several."),
]
ConditionColumns = Annotated[
    str | None,
    typer.Option(
        "--condition-columns",
        metavar="NAMES",
        help="Channels that are operating conditions, such as [b]speed[/b] or [b]n=speed[/b], separated by commas.",
    ),
]


def read_with_options(
    path: Path,
    *,
    rate: float | None = None,
    channels: str | None = None,
    units: str | None = None,
    array: str | None = None,
    conditions: str | None = None,
    wanted: Sequence[str] = (),
) -> Recording:
    """Read a file with the options of the command line.

    ``wanted`` has the channels that are used if the file has them and no others are asked for: the units of the others
    do not matter then.
    """
    from cgsa.data.readers import open_signal
    from cgsa.data.readers.selection import RecordingSelection

    file = open_signal(path, array=array)
    default = list(wanted) if file.recording is None and wanted and set(wanted) <= set(file.channels) else None
    one_for_all = units is not None and "," not in units
    selection = RecordingSelection(
        sample_rate=rate,
        channels=default if channels is None else _names(channels),
        units=units if units is None or one_for_all else [unit.strip() for unit in units.split(",")],
        conditions=() if conditions is None else _names(conditions),
    )
    return selection.recording(file)


def _names(text: str) -> list[str] | dict[str, str]:
    """Return names, or a mapping from names to new names if one is renamed."""
    parts = [part.strip() for part in text.split(",")]
    if not any("=" in part for part in parts):
        return parts
    pairs = [part.partition("=") for part in parts]
    return {old.strip(): new.strip() or old.strip() for old, _, new in pairs}
