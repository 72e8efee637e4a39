"""Where the store of a service is: a file in its folder, or the PostgreSQL of the table ``[store]``.

Commands take the folder of a service, not its configuration. So a service whose store is in PostgreSQL writes into its
folder where that is, and where the password is; never the password itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cgsa.config import bind
from cgsa.errors import ConfigError, DataError
from cgsa.files import replacing
from cgsa.live.store import PostgresAddress
from cgsa.live.store.opening import PLACE_FILE, STORE_FILE
from cgsa.service.links.secret import Secret


@dataclass(frozen=True)
class StoreConfig:
    """A store in PostgreSQL."""

    url: str
    """User, host, port and database, such as postgresql://cgsa@db.plant:5432/cgsa."""
    password: Secret | None = None
    """Where the password is; None if the server asks for none."""
    tls: bool | None = None
    """Whether connections are encrypted and the server's certificate is checked; by default they are, unless it runs on
    this computer."""
    ca: str | None = None
    """File of the authorities to check it with; None means the system's."""
    certificate: str | None = None
    """File of the client certificate, if the server asks for one."""
    key: str | None = None
    """File of its key."""
    readers: int = 8
    """Connections for reading, at most; one more writes."""

    def __post_init__(self) -> None:
        address = self.address()
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("store.certificate and store.key; expected both or neither")
        if not address.tls and (self.ca or self.certificate):
            raise ConfigError("store.ca and store.certificate go with tls; expected tls = true")
        if self.readers < 1:
            raise ConfigError(f"store.readers {self.readers}; expected 1 or more")

    def address(self) -> PostgresAddress:
        """Return where the database is."""
        return PostgresAddress.parse(
            self.url,
            tls=self.tls,
            password=None if self.password is None else self.password.read,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            readers=self.readers,
        )

    def resolved(self, folder: Path) -> StoreConfig:
        """Return the same with paths that do not depend on where a program runs; they are relative to a folder."""

        def path(name: str | None) -> str | None:
            return None if name is None else str((folder / name).absolute())

        password = self.password
        if password is not None and password.file is not None:
            password = Secret(file=path(password.file))
        return replace(
            self, password=password, ca=path(self.ca), certificate=path(self.certificate), key=path(self.key)
        )


def write_place(folder: Path, config: StoreConfig | None) -> None:
    """Write into the folder of a service where its store is, for commands that know the folder alone."""
    file = folder / PLACE_FILE
    if config is None:
        file.unlink(missing_ok=True)
        return
    with replacing(file, DataError) as fresh:
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(_without_empty(asdict(config)), indent=1), encoding="utf-8")


def place_of(folder: Path) -> Path | PostgresAddress:
    """Return where the store of the service with this folder is; it may be missing."""
    file = folder / PLACE_FILE
    if not file.is_file():
        return folder / STORE_FILE
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read ({error}); the next start of the service writes it anew") from error
    return bind(StoreConfig, table, str(file)).address()


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_empty(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }
