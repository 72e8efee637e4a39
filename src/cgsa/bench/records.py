"""The record of one stream run: its tidy rows and the data for figures, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from cgsa.bench.stream_details import StreamDetails
from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.files import replacing

K = TypeVar("K")
T = TypeVar("T")

WHOLE_STREAM = "all"
"""Stage of the row with the average over the stages and the ECE over the stream."""

Row = Mapping[str, object]
"""A tidy row: one stage of one stream run, or the whole stream."""


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by key; keys are in the order of their first item."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def number(row: Row, column: str) -> float:
    """Return a numeric cell of a row."""
    value = row[column]
    if not isinstance(value, int | float):
        raise ConfigError(f"column {column} is {value!r}; expected a number")
    return value


def whole_streams(rows: Iterable[Row], scenario: str) -> list[Row]:
    """Return the rows of whole streams of a scenario."""
    return [row for row in rows if row["scenario"] == scenario and row["stage"] == WHOLE_STREAM]


@dataclass(frozen=True)
class RunRecord:
    """One method on one stream in one trial."""

    rows: tuple[Row, ...]
    """One per stage, then one for the whole stream."""
    details: StreamDetails

    @property
    def whole_stream(self) -> Row:
        """The row of the whole stream."""
        return self.rows[-1]

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.whole_stream["scenario"])

    @property
    def fault(self) -> str:
        """The fault of the stream."""
        return str(self.whole_stream["fault"])

    @property
    def entry(self) -> str:
        """Name of the method in tables."""
        return str(self.whole_stream["entry"])

    @property
    def trial(self) -> int:
        """Number of the trial."""
        return int(number(self.whole_stream, "trial"))

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages."""
        return tuple(str(row["stage"]) for row in self.rows[:-1])

    def save(self, path: Path) -> None:
        """Write the record atomically."""
        text = json.dumps({"rows": self.rows, "details": asdict(self.details)})
        with replacing(path, ConfigError) as fresh:
            fresh.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RunRecord:
        """Read a record."""
        try:
            text = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(text["rows"]), bind(StreamDetails, text["details"], f"details of {path}"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path}: not a record of a stream run ({error}); remove it to run the stream again"
            ) from error
