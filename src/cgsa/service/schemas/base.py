"""What all answers and forms share."""

from __future__ import annotations

import math
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cgsa.live.alarms import MAX_TEXT
from cgsa.live.intake.block import MAX_TIME


def _known(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> Any:
    """Return what JSON can hold of a value."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _known(value) if value is None or isinstance(value, str | int | float) else str(value)


Number: TypeAlias = Annotated[float | None, BeforeValidator(_known)]
Details: TypeAlias = Annotated[dict[str, Any], BeforeValidator(plain)]
Time: TypeAlias = Annotated[float, Field(ge=0, lt=MAX_TIME, allow_inf_nan=False)]
"""Seconds since 1970, by the clock of the stream."""
Text: TypeAlias = Annotated[str, Field(max_length=MAX_TEXT)]
Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, pattern=r"\S")]
"""Text that says something."""


class Answer(BaseModel):
    """Base of the answers."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True, frozen=True)


class Form(BaseModel):
    """Base of what comes in: nothing but what is asked for."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class ErrorDetail(Answer):
    """What went wrong."""

    kind: str
    """A word for programs, such as ``not found``."""
    message: str
    """What, where, and what would be right."""
    where: str | None
    """The part of the request, such as ``body.seconds``; null where it is not about one part."""


class Error(Answer):
    """Every error."""

    error: ErrorDetail


Row = TypeVar("Row", bound=Answer)


class Page(Answer, Generic[Row]):
    """Some rows, and where to go on."""

    rows: tuple[Row, ...]
    cursor: str | None
    """Ask with ``after`` for the rows behind these."""
    more: bool
    """Whether there are more rows already."""
