"""Errors of the libraries that parse files, as errors that name the file and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from cgsa.errors import CgsaError, DataError

CURE = "it may be damaged or truncated; copy or export it again"


@contextmanager
def parsing(path: Path, kind: str) -> Iterator[None]:
    """Raise whatever a library raises on a damaged file as a :class:`DataError`.

    Parsers meet any value in a damaged file, and raise any type of error then.
    """
    try:
        yield
    except CgsaError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{path}: cannot read it as {kind}: it states more data than fits into memory; {CURE}"
        ) from error
    except Exception as error:
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path}: cannot read it as {kind}: {text}; {CURE}") from error


def require_extra(path: Path, module: str, package: str) -> ModuleType:
    """Import the library of a format, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(
            f"{path}: reading this format needs {package}; install it with: pip install 'cgsa[formats]'"
        ) from error


def truncated(path: Path, what: str, begin: int, end: int, size: int) -> DataError:
    """Return the error for a part of a file that lies beyond its end."""
    return DataError(
        f"{path}: truncated: {what} at byte {begin} reaches to byte {end}, but the file ends at byte {size}; "
        f"copy or export it again"
    )
