"""The record of one meeting: its tidy rows and what figures need, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from cgsa.bench.details import Details
from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.files import replacing

WHOLE_STREAM = "all"
"""Stage of the row that holds the average over the stages and the ECE over the stream."""

Row = Mapping[str, object]
"""A tidy row: one stage of one meeting, or the whole stream."""


@dataclass(frozen=True)
class RunRecord:
    """One method on one stream in one trial."""

    rows: tuple[Row, ...]
    """One a stage, then one of the whole stream."""
    details: Details

    @property
    def whole(self) -> Row:
        """The row of the whole stream."""
        return self.rows[-1]

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.whole["scenario"])

    @property
    def fault(self) -> str:
        """The fault that sets in."""
        return str(self.whole["fault"])

    @property
    def entry(self) -> str:
        """How tables call the method."""
        return str(self.whole["entry"])

    @property
    def trial(self) -> int:
        """Number of the trial."""
        return cast(int, self.whole["trial"])

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages."""
        return tuple(str(row["stage"]) for row in self.rows[:-1])

    def save(self, path: Path) -> None:
        """Write the record; the file is there whole or not at all."""
        text = json.dumps({"rows": self.rows, "details": asdict(self.details)})
        with replacing(path, ConfigError) as fresh:
            fresh.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RunRecord:
        """Read a record."""
        try:
            text = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(text["rows"]), bind(Details, text["details"], f"details of {path}"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: no record of a meeting ({error}); remove it, and it is done again") from error
