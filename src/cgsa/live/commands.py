"""What people, and the service itself, tell a watch; a record of its journal like any block."""

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
    "silence",
    "remark",
]
NAMES: tuple[Name, ...] = get_args(Name)


@dataclass(frozen=True)
class Command:
    """One command to a watch."""

    name: Name
    who: str
    """Who gave it; ``service`` for what no person did."""
    text: str = ""
    """What the person said with it."""
    details: Mapping[str, object] = field(default_factory=dict)
    """What else it needs, such as the seconds of a shelving."""

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise DataError(f"command {self.name!r}; expected one of {', '.join(NAMES)}")

    def number(self, detail: str) -> float:
        """Return one of its details, which must be a number."""
        value = self.details.get(detail)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise DataError(f"command {self.name}: {detail} is {value!r}; expected a number")
        return float(value)

    def word(self, detail: str) -> str:
        """Return one of its details, which must be a word."""
        value = self.details.get(detail)
        if not isinstance(value, str):
            raise DataError(f"command {self.name}: {detail} is {value!r}; expected a word")
        return value

    def to_bytes(self) -> bytes:
        """Return the command as a journal keeps it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Command:
        """Read a command, or say why it is none."""
        try:
            return bind(cls, json.loads(payload), "command")
        except (ValueError, TypeError, RecursionError, ConfigError) as error:
            raise DataError(f"a record that is no command ({error})") from error
