"""What commands about the folder of a service share."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from cgsa.errors import ConfigError

Folder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="SERVICE", help="Folder of the service, as named in its configuration.")
]


def store_file(folder: Path) -> Path:
    """Return the store in the folder of a service."""
    path = folder / "store.sqlite"
    if not path.exists():
        raise ConfigError(f"{folder}: there is no store here; expected the folder of a service")
    return path


def require_package(package: str, extra: str = "serve") -> None:
    """Refuse a command whose package is not installed."""
    if find_spec(package) is None:
        raise ConfigError(f"this needs {package}; install it with pip install 'cgsa[{extra}]'")
