"""Commands to a watch, from users or the service itself; like blocks, they are records of its journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias, get_args

from cgsa.config import bind
from cgsa.errors import ConfigError, DataError

Name: TypeAlias = Literal[
    "acknowledge",
    "shelve",
    "unshelve",
    "close",
    "comment",
    "label",
    "freeze",
    "thaw",
    "reset",
    "roll_back",
    "confirm_healthy",
    "mark_faulty",
    "commission",
    "take_reference",
    "withdraw_reference",
    "readmit",
    "silence",
    "remark",
    "clock",
    "refuse",
    "skip",
    "end_recording",
]
SERVICE = "service"
"""Author of commands that no user gives."""
NAMES: tuple[Name, ...] = get_args(Name)
COMMISSIONING_NAMES: frozenset[Name] = frozenset(
    {"confirm_healthy", "mark_faulty", "commission", "take_reference", "withdraw_reference"}
)
"""Commands about the commissioning of the machine."""


@dataclass(frozen=True)
class Command:
    """A command to a watch."""

    name: Name
    who: str
    """The user who gave it, or ``service``."""
    text: str = ""
    """Text of the user."""
    details: Mapping[str, object] = field(default_factory=dict)
    """Further parameters, such as the seconds of a shelving."""

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise DataError(f"command {self.name!r}; expected one of {', '.join(NAMES)}")

    def number(self, detail: str) -> float:
        """Return a detail that must be a number."""
        value = self.details.get(detail)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise DataError(f"command {self.name}: {detail} is {value!r}; expected a number")
        return float(value)

    def flag(self, detail: str) -> bool:
        """Return a detail that must be true or false."""
        value = self.details.get(detail)
        if not isinstance(value, bool):
            raise DataError(f"command {self.name}: {detail} is {value!r}; expected true or false")
        return value

    def text_of(self, detail: str) -> str:
        """Return a detail that must be text."""
        value = self.details.get(detail)
        if not isinstance(value, str):
            raise DataError(f"command {self.name}: {detail} is {value!r}; expected text")
        return value

    def to_bytes(self) -> bytes:
        """Return the payload of the journal record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Command:
        """Read the payload of a journal record."""
        try:
            return bind(cls, json.loads(payload), "command")
        except (ValueError, TypeError, RecursionError, ConfigError) as error:
            raise DataError(f"a record that is not a command ({error})") from error
