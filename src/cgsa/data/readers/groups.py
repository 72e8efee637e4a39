"""Files of several groups of channels (TDMS, MDF4, UFF58): which group is the recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from cgsa.data.signal_file import Blocks, SignalFile
from cgsa.errors import DataError

MAX_LISTED = 12


@dataclass(frozen=True)
class SignalGroup:
    """Channels of the same rate and length."""

    name: str
    keys: tuple[str, ...]
    """What the format calls the channels, in the order of their names."""
    channels: tuple[str, ...]
    units: tuple[str | None, ...]
    sample_rate: float | None
    samples: int
    notes: tuple[str, ...] = ()
    problem: str | None = None
    """Why the group cannot be read."""

    def signal_file(
        self, path: Path, format_name: str, read: Blocks, *, several: bool, notes: Iterable[str] = ()
    ) -> SignalFile:
        """Return the group as the recording of a file; ``several`` is whether the file has others."""
        return SignalFile(
            path=path,
            format=format_name,
            channels=self.channels,
            units=self.units,
            sample_rate=self.sample_rate,
            samples=self.samples,
            read=read,
            array=self.name if several else None,
            notes=tuple(notes),
        )

    def __str__(self) -> str:
        rate = "" if self.sample_rate is None else f" at {self.sample_rate:g} Hz"
        return f"{self.name!r} ({self.problem or f'{len(self.channels)} channels of {self.samples} samples{rate}'})"


def choose_group(path: Path, groups: Sequence[SignalGroup], array: str | None) -> tuple[SignalGroup, bool]:
    """Return the group of the given name, or the only one; and whether there are several."""
    listing = ", ".join(map(str, groups[:MAX_LISTED])) + (", ..." if len(groups) > MAX_LISTED else "")
    if not groups:
        raise DataError(f"{path}: holds no channel of numbers")
    if array is None and len(groups) > 1:
        raise DataError(
            f"{path}: holds several groups of channels: {listing}; name one, as in array={groups[0].name!r}"
        )
    found = [group for group in groups if array in {None, group.name}]
    if array is not None and not found:
        found = [group for group in groups if fnmatchcase(group.name, array)]
        if len(found) > 1:
            raise DataError(f"{path}: {array!r} fits several groups: {listing}; name one")
    if not found:
        raise DataError(f"{path}: no group {array!r}; it has {listing}")
    if found[0].problem is not None:
        raise DataError(f"{path}: group {found[0].name!r} has {found[0].problem}; a recording has one rate and length")
    return found[0], len(groups) > 1
