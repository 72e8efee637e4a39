"""Failures of other processes, which pass: all of them are errors that are tried again."""

from __future__ import annotations

from typing import NoReturn

from cgsa.errors import UnavailableError


def raise_unavailable(what: str, problem: BaseException) -> NoReturn:
    """Raise the error of something that cannot be reached at present, with an ``OSError`` as its cause."""
    reason = str(problem) or type(problem).__name__
    if not isinstance(problem, OSError):
        # Clients have errors of their own; that of the system behind them is what decides about another attempt.
        system = ConnectionError(0, reason)
        system.__cause__ = problem
        problem = system
    raise UnavailableError(f"{what} ({reason}); it is tried again") from problem
