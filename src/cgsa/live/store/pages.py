"""Reading tables page by page: the selection of rows, and the cursor of the next page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from cgsa.errors import DataError

T_co = TypeVar("T_co", covariant=True)

MAX_PAGE = 1000
"""Maximum number of rows per page."""


@dataclass(frozen=True)
class RowSelection:
    """Which rows of a table to read."""

    begin: float = -math.inf
    """First time, inclusive."""
    end: float = math.inf
    """Last time, exclusive."""
    after: str | None = None
    """The ``cursor`` of the previous page; None for the first page."""
    limit: int = 100
    newest_first: bool = True
    machines: tuple[str, ...] = ()
    """Patterns of machines, with ``*`` and ``?``; empty for all machines."""

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise DataError(f"a page of {self.limit} rows; expected 1 to {MAX_PAGE}")


NEWEST = RowSelection()


@dataclass(frozen=True)
class RowPage(Generic[T_co]):
    """Some rows of a table; each row is on one page only, whatever is written in between."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {
        "json_schema_serialization_defaults_required": True,
        "use_attribute_docstrings": True,
    }
    """The API answers with pages, and describes their fields by these docstrings."""

    rows: tuple[T_co, ...]
    cursor: str | None
    """Where the next page begins, now or once there are new rows; None if there has been no row."""
    more: bool
    """Whether there are more rows now."""


def parse_cursor(text: str) -> tuple[float, int]:
    """Return the time and id of the row that a cursor points to."""
    time, _, number = text.partition(",")
    try:
        return float(time), int(number)
    except ValueError:
        raise DataError(f"cursor {text!r}; expected the cursor of a page") from None
