"""Errors that cgsa raises for invalid input.

Every message says what is wrong, where, and what is expected. The command line
prints it without a traceback; any other exception is a bug.
"""

from __future__ import annotations

import sqlite3


class CgsaError(Exception):
    """Base class of all errors that a caller can cause and fix."""


class DataError(CgsaError):
    """A recording, or a file that should contain one, is invalid."""


class ConfigError(CgsaError):
    """A setting, profile or scenario is invalid."""


class UnknownNameError(ConfigError):
    """A name is not in its registry."""


class BundleError(CgsaError):
    """A model bundle or checkpoint cannot be verified, read or written."""


class LeakError(DataError):
    """A raw sample is on both sides of a split."""


class TrainingDivergedError(CgsaError):
    """Training produced values that are not finite."""


class OverloadError(CgsaError):
    """The load is too high at present; the caller may try again later."""


class UnavailableError(OverloadError):
    """Something can take no input until a fault of its own is over; others may go on without it."""


def is_environmental(error: BaseException) -> bool:
    """Return whether the environment caused an error: disk, memory, handles, or another program.

    Such an error passes, and what failed can be tried again. Any other error is one of the input or of the program, and
    trying again does not help.
    """
    found: BaseException | None = error
    while found is not None:
        # SQLite reports a file that cannot be read as a DatabaseError itself, and mistakes in the input as others.
        if isinstance(found, OSError | MemoryError | sqlite3.OperationalError) or type(found) is sqlite3.DatabaseError:
            return True
        found = found.__cause__
    return False


def environmental_cause(error: BaseException) -> str:
    """Return what is wrong in the words of the system, such as ``No space left on device``; no path, and no name."""
    found: BaseException | None = error
    while found is not None:
        match found:
            case OSError():
                return found.strerror or type(found).__name__
            case MemoryError():
                return "out of memory"
            case sqlite3.Error():
                return str(found)
        found = found.__cause__
    return "fault of the program"
