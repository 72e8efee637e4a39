"""Optional packages, imported when a command needs them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from cgsa.errors import ConfigError


def import_extra(package: str, *, extra: str, purpose: str) -> ModuleType:
    """Return an optional package; if it is missing, the error names the extra to install."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{purpose} needs {package}: pip install 'cgsa[{extra}]'") from error
