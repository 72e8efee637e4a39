"""What a ledger holds: one row a window, as columns of numbers and of words, and what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cgsa.errors import ConfigError, DataError

FIXED = ("window", "time", "source", "verdict", "confidence", "accepted", "reason")
"""Columns of every ledger; any other one is evidence of the method, one float32 a window."""


@dataclass(frozen=True)
class LedgerInfo:
    """What was watched with what."""

    method: str
    classes: tuple[str, ...]
    """Verdicts in the order of the model, the healthy one first."""
    seconds_per_window: float
    """From the begin of one window to that of the next."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """All settings of the method."""
    seed: int = 0
    batch_size: int = 1
    scenario: str = ""
    """What the model was trained on..."""
    objective: str = ""
    """...how..."""
    model_seed: int = 0
    """...and with which seed."""
    bundle: str = ""
    """Where the model lay."""
    sha256: str = ""
    """Hash of its numbers, as in the manifest of the bundle."""
    cgsa: str = ""
    """Version that wrote the ledger."""

    def __post_init__(self) -> None:
        if not self.seconds_per_window > 0:
            raise ConfigError(f"seconds_per_window {self.seconds_per_window:g}; expected more than 0")


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """A column of words, each told by its place in a list: thousands of rows share a few words."""

    codes: npt.NDArray[np.int32]
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.codes) and not 0 <= self.codes.min() <= self.codes.max() < len(self.words):
            raise DataError(
                f"codes from {self.codes.min()} to {self.codes.max()} for {len(self.words)} words; "
                f"expected 0 to {len(self.words) - 1}"
            )

    def __len__(self) -> int:
        return len(self.codes)


Column: TypeAlias = npt.NDArray[Any] | LabelColumn
Columns: TypeAlias = Mapping[str, Column]
"""Rows of a ledger, by the names of their columns. There is no ``accepted`` where a method never learns."""
