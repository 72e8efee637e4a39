"""Rights: the role of a person or program, and the machines that they have it for."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Literal, TypeAlias, get_args

from cgsa.errors import CgsaError, DataError

Role: TypeAlias = Literal["sender", "viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
INCLUDED: Mapping[Role, frozenset[Role]] = {
    "sender": frozenset({"sender"}),
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"sender", "viewer", "operator"}),
    "admin": frozenset(ROLES),
}
"""The roles that each role includes; a sender posts blocks and reads nothing but how they are received."""
NeededRole: TypeAlias = Role | Literal["any"]
"""What a route asks for: a role, or any valid token."""
MACHINES = r"[A-Za-z0-9_*?-][A-Za-z0-9._*?-]{0,63}"
"""Pattern of what stands for machines: a name, or one with ``*`` and ``?``."""
MAX_PATTERNS = 64
"""Patterns of machines per token."""


class NotAllowedError(CgsaError):
    """A request is not allowed."""

    def __init__(self, message: str, status: Literal[401, 403, 429] = 403, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status: not authenticated (401), not authorised (403), or too many requests (429)."""
        self.retry_after = retry_after
        """Seconds after which to try again; None if that does not help."""


@dataclass(frozen=True)
class Person:
    """A person or program with a valid token, or a person whom an identity provider vouches for."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {
        "json_schema_serialization_defaults_required": True,
        "use_attribute_docstrings": True,
    }
    """The API answers with it, and describes its fields by these docstrings."""

    name: str
    """Name of the token; or that of the person at the identity provider, after ``oidc:``."""
    role: Role
    machines: tuple[str, ...] = ()
    """Patterns of the machines that the token is valid for; empty for all machines."""

    def may(self, role: NeededRole) -> bool:
        """Return whether the person's role includes this one."""
        return role == "any" or role in INCLUDED[self.role]

    def covers(self, machine: str) -> bool:
        """Return whether the token is valid for a machine.

        >>> Person("ann", "viewer", ("press-*",)).covers("press-1"), Person("ann", "viewer").covers("fan")
        (True, True)
        """
        return not self.machines or any(fnmatchcase(machine, pattern) for pattern in self.machines)

    def covers_pattern(self, pattern: str) -> bool:
        """Return whether the token is valid for every machine that a pattern stands for.

        >>> ann = Person("ann", "operator", ("press-?",))
        >>> ann.covers_pattern("press-1"), ann.covers_pattern("press-*")
        (True, False)
        """
        # In place of each asterisk: nothing, and one and two characters that no name has.
        return all(self.covers(pattern.replace("*", filling)) for filling in ("", "\0", "\0\0"))


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns of machines, or refuse them; ``*`` stands for any characters, ``?`` for one."""
    invalid = [one for one in patterns if not re.fullmatch(MACHINES, one)]
    if invalid or len(patterns) > MAX_PATTERNS:
        wrong = reprlib.repr(invalid[0]) if invalid else f"{len(patterns)} patterns"
        raise DataError(
            f"machines {wrong}: expected at most {MAX_PATTERNS} names or patterns of letters, digits, '.', '_', '-', "
            "'*' and '?', such as press-1 or press-*"
        )
    return tuple(patterns)
