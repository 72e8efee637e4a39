"""``machine.toml``: what a data set says about its machine and about each of its recordings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from cgsa.config import as_table, bind, read_toml, stored_as, stored_if_given, toml_text
from cgsa.data.scenario import SpecimenKind
from cgsa.data.steady_state import UNKNOWN_UNIT
from cgsa.errors import ConfigError, DataError

MACHINE_FILE = "machine.toml"
VERSION = 1
Split: TypeAlias = Literal["train", "test"]

HEADER = """\
# A data set of cgsa: the machine, and one entry per recording. Edit it freely; every command reads it.
# The first class is the healthy one. A condition of a recording is a number, or [lowest, highest] if the file has a
# measured trace of it.
# An entry with split = "test" is never trained on.
"""


@dataclass(frozen=True)
class ChannelEntry:
    """A channel of every recording."""

    name: str
    unit: str = UNKNOWN_UNIT


@dataclass(frozen=True)
class ConditionEntry:
    """An operating condition of every recording."""

    name: str
    unit: str = ""


@dataclass(frozen=True)
class RecordingEntry:
    """One recording of a data set."""

    file: str
    """Path of the Parquet file below the folder, with forward slashes."""
    label: str = field(metadata=stored_as("class"))
    conditions: Mapping[str, object] = field(default_factory=dict)
    """A number for each condition, or the lowest and highest value of a measured trace in the file."""
    unit: str | None = field(default=None, metadata=stored_if_given())
    """Name of the assembly that was recorded."""
    run: str | None = field(default=None, metadata=stored_if_given())
    """Name of the session or repetition."""
    origin: str | None = field(default=None, metadata=stored_if_given())
    """File that it was imported from."""
    split: Split | None = field(default=None, metadata=stored_if_given())
    """A recording for tests is never trained on; by default, an entry is for training."""

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.file).parts
        # A data set is a folder that can be copied: no file of it may be elsewhere.
        if not parts or self.file.startswith("/") or "\\" in self.file or ".." in parts:
            raise ConfigError(f"file {self.file!r}; expected a path below the folder of the data set")
        for name, value in self.conditions.items():
            if _number(value) is None and _range(value) is None:
                raise ConfigError(
                    f"condition {name} is {value!r}; expected a number, or [lowest, highest] of a measured trace"
                )

    @property
    def levels(self) -> dict[str, float]:
        """The constant conditions."""
        numbers = {name: _number(value) for name, value in self.conditions.items()}
        return {name: value for name, value in numbers.items() if value is not None}

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of the measured conditions."""
        found = {name: _range(value) for name, value in self.conditions.items()}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class MachineFile:
    """The contents of a ``machine.toml``."""

    name: str
    sample_rate: float
    """In Hz."""
    classes: tuple[str, ...]
    """The healthy one first."""
    channels: tuple[ChannelEntry, ...] = field(metadata=stored_as("channel"))
    recordings: tuple[RecordingEntry, ...] = field(metadata=stored_as("recording"))
    conditions: tuple[ConditionEntry, ...] = field(default=(), metadata=stored_as("condition"))
    version: int = VERSION

    @property
    def specimen_kind(self) -> SpecimenKind:
        """What the specimens are: units, or runs if no recording names its unit."""
        return "run" if self.recordings[0].unit is None else "unit"

    @classmethod
    def read(cls, path: Path) -> MachineFile:
        """Read and check a ``machine.toml``; every problem is reported with its line."""
        table = read_toml(path)
        version = table.get("version", VERSION)
        if version != VERSION:
            raise DataError(f"{path}: version {version!r}; this release reads version {VERSION}")
        found = bind(cls, table, str(path), DataError)
        lines = _entry_lines(path)
        problems = [
            f"{path}{'' if number is None else f', line {lines[number]}, recording {number + 1}'}: {problem}"
            for number, problem in found.problems()
        ]
        if problems:
            raise DataError("\n".join(problems))
        return found

    def problems(self) -> Iterator[tuple[int | None, str]]:
        """Yield what is wrong, each with the index of the recording it is about, or None for the whole."""
        if not (math.isfinite(self.sample_rate) and self.sample_rate > 0):
            yield None, f"sample_rate {self.sample_rate:g}; expected a positive number of Hz"
        for what, names in (
            ("classes", self.classes),
            ("channels", [one.name for one in self.channels]),
            ("conditions", [one.name for one in self.conditions]),
        ):
            if len(set(names)) != len(names) or (not names and what != "conditions"):
                yield None, f"{what} {', '.join(names) or 'none'}; expected at least one, and different names"
        if not self.recordings:
            yield None, "no [[recording]]; expected at least one"
        for key in ("unit", "run"):
            given = [getattr(entry, key) is not None for entry in self.recordings]
            if any(given) and not all(given):
                yield given.index(False), f"has no {key}, others have one; expected it in all entries or in none"
        files: dict[str, int] = {}
        for number, entry in enumerate(self.recordings):
            yield from ((number, problem) for problem in self._entry_problems(entry))
            first = files.setdefault(entry.file, number)
            if first != number:
                yield number, f"{entry.file} is also recording {first + 1}; expected one entry per file"

    def _entry_problems(self, entry: RecordingEntry) -> Iterator[str]:
        if entry.label not in self.classes:
            yield f"{entry.file} has class {entry.label!r}; classes lists {', '.join(self.classes)}"
        names = [one.name for one in self.conditions]
        for name in names:
            if name not in entry.conditions:
                yield f"{entry.file} has no condition {name}; expected a number, or [lowest, highest] of its trace"
        for name in entry.conditions:
            if name not in names:
                yield f"{entry.file} has a condition {name!r}; the conditions are {', '.join(names) or 'none'}"

    def to_toml(self) -> str:
        """Return the text of the file."""
        table = as_table(self)
        return f"{HEADER}\n{toml_text({'version': table.pop('version'), **table})}"


def is_data_set(folder: str | Path) -> bool:
    """Return whether a folder is a data set, by its ``machine.toml``."""
    return (Path(folder) / MACHINE_FILE).is_file()


def _entry_lines(path: Path) -> list[int]:
    """Return the line of each ``[[recording]]``; the only place that knows it is the text."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    found = [number for number, line in lines if re.match(r"\s*\[\[\s*recording\s*\]\]", line)]
    # Entries may also be written as an inline array, in one line.
    return found or [1] * len(read_toml(path).get("recording", ()))  # type: ignore[arg-type]


def _number(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def _range(value: object) -> tuple[float, float] | None:
    """Return two finite numbers in order; None for anything else."""
    numbers = [_number(one) for one in value] if isinstance(value, list | tuple) else []
    known = [one for one in numbers if one is not None]
    return (known[0], known[1]) if len(numbers) == len(known) == 2 and known[0] <= known[1] else None
