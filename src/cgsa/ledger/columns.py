"""Columns of a ledger: one row per window, numbers and labels, and the stream they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cgsa.errors import ConfigError, DataError

STANDS_FOR = "stands_for"
"""Column of a thinned ledger: how many windows each row stands for."""
FIXED = ("window", "time", "source", "verdict", "confidence", "accepted", "reason")
"""Columns of every ledger; any other column is evidence of the method, one float32 per window."""


@dataclass(frozen=True)
class LedgerInfo:
    """The method and model whose windows a ledger holds."""

    method: str
    classes: tuple[str, ...]
    """Possible verdicts in the order of the model, the healthy class first."""
    seconds_per_window: float
    """From the start of one window to the start of the next."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """All settings of the method."""
    seed: int = 0
    batch_size: int = 1
    scenario: str = ""
    """Of the training."""
    objective: str = ""
    model_seed: int = 0
    """Seed of the training."""
    bundle: str = ""
    """Path of the model."""
    sha256: str = ""
    """Hash of its tensors, as in the manifest of the bundle."""
    cgsa: str = ""
    """Version of cgsa that wrote the ledger."""

    def __post_init__(self) -> None:
        if not self.seconds_per_window > 0:
            raise ConfigError(f"seconds_per_window {self.seconds_per_window:g}; expected more than 0")


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """A column of labels, stored as indices into a short list of them."""

    codes: npt.NDArray[np.int32]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.codes) and not 0 <= self.codes.min() <= self.codes.max() < len(self.labels):
            raise DataError(
                f"codes from {self.codes.min()} to {self.codes.max()} for {len(self.labels)} labels; "
                f"expected 0 to {len(self.labels) - 1}"
            )

    def __len__(self) -> int:
        return len(self.codes)


Column: TypeAlias = npt.NDArray[Any] | LabelColumn
Columns: TypeAlias = Mapping[str, Column]
"""Ledger rows by column name. A method that never adapts has no column ``accepted``."""


def stands_for(columns: Columns) -> npt.NDArray[np.float64]:
    """Return how many windows each row stands for."""
    found = columns.get(STANDS_FOR)
    return np.ones(len(columns["time"])) if found is None else np.asarray(found, np.float64)


def join_column(pieces: Sequence[Column]) -> Column:
    """Return the pieces of one column end to end; labels that differ between pieces are numbered anew."""
    labelled = [piece for piece in pieces if isinstance(piece, LabelColumn)]
    if not labelled:
        return np.concatenate([np.asarray(piece) for piece in pieces])
    numbers: dict[str, int] = {}
    codes = [
        np.array([numbers.setdefault(label, len(numbers)) for label in piece.labels], np.int32)[piece.codes]
        for piece in labelled
    ]
    return LabelColumn(np.concatenate(codes), tuple(numbers))
