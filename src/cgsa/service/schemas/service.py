"""What is told of the service, of its people, and of what became of a request."""

from __future__ import annotations

from typing import Literal

from cgsa.service.auth import Role
from cgsa.service.schemas.base import Answer, Details


class Token(Answer):
    """A token, without its secret."""

    name: str
    role: str
    created: float
    last_used: float | None
    revoked: float | None


class Tokens(Answer):
    """All tokens, good or revoked."""

    tokens: tuple[Token, ...]


class FreshToken(Answer):
    """A new token; it is shown now and never again."""

    name: str
    role: Role
    token: str


class Me(Answer):
    """Who asks."""

    name: str
    role: Role


class Audit(Answer):
    """Who did what."""

    time: float
    """By the clock on the wall."""
    who: str
    what: str
    machine: str | None
    origin: str
    result: str
    details: Details


class Taken(Answer):
    """A block is in its machine's journal."""

    machine: str
    position: int


class Done(Answer):
    """What became of a command."""

    done: bool
    """Whether it was carried out already; where not, it stands in the journal and will be when its turn comes."""


class Health(Answer):
    """The process is alive."""

    alive: Literal[True] = True
    version: str


class Ready(Answer):
    """Whether everything is as it should be."""

    ready: bool
    reasons: tuple[str, ...]
    """Why not."""
