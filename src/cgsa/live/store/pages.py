"""Tables are read page by page: which rows are asked for, and where to go on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from cgsa.errors import DataError

T_co = TypeVar("T_co", covariant=True)

MAX_PAGE = 1000
"""Most rows of one page."""


@dataclass(frozen=True)
class RowSelection:
    """Which rows of a table to read."""

    begin: float = -math.inf
    """From this time on..."""
    end: float = math.inf
    """...and before this one."""
    after: str | None = None
    """The ``cursor`` of the page before; none for the first page."""
    limit: int = 100
    newest_first: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise DataError(f"a page of {self.limit} rows; expected 1 to {MAX_PAGE}")


NEWEST = RowSelection()


@dataclass(frozen=True)
class RowPage(Generic[T_co]):
    """Some rows of a table; as rows never move, pages hold each of them once, whatever is written between."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {
        "json_schema_serialization_defaults_required": True,
        "use_attribute_docstrings": True,
    }
    """The API answers with pages, and describes their fields by these docstrings."""

    rows: tuple[T_co, ...]
    cursor: str | None
    """Where to go on, now or when there may be new rows; none where there never was one."""
    more: bool
    """Whether there are more rows already."""


def parse_cursor(text: str) -> tuple[float, int]:
    """Return time and id of the row that a cursor points at."""
    time, _, number = text.partition(",")
    try:
        return float(time), int(number)
    except ValueError:
        raise DataError(f"cursor {text!r}; expected one that a page came with") from None
