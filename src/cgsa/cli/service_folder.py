"""What commands about the folder of a service share."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.live.store import PostgresAddress

Folder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="SERVICE", help="Folder of the service, as named in its configuration.")
]


def store_place(folder: Path) -> Path | PostgresAddress:
    """Return where the store of the service with this folder is."""
    from cgsa.service.store_config import place_of

    place = place_of(folder)
    if isinstance(place, Path) and not place.exists():
        raise ConfigError(f"{folder}: there is no store here; expected the folder of a service")
    return place


def require_package(package: str, extra: str = "serve") -> None:
    """Refuse a command whose package is not installed."""
    if find_spec(package) is None:
        raise ConfigError(f"this needs {package}; install it with pip install 'cgsa[{extra}]'")
