"""Where a PostgreSQL database is, and how to log in; needs no package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import quote, unquote, urlsplit

from cgsa.errors import ConfigError

EXAMPLE = "postgresql://cgsa@db.plant:5432/cgsa"


@dataclass(frozen=True)
class PostgresAddress:
    """A database on a PostgreSQL server."""

    host: str
    port: int
    user: str
    database: str
    password: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Reads the password, anew for each connection; None if the server asks for none."""
    tls: bool = True
    """Whether connections are encrypted; the certificate must be valid and name the host."""
    ca: str | None = None
    """File of trusted certificate authorities; None means the system's."""
    certificate: str | None = None
    """File of the client certificate, if the server asks for one."""
    key: str | None = None
    """File of its key."""
    readers: int = 8
    """Connections for reading, at most; one more writes."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{quote(self.user)}@{host}:{self.port}/{quote(self.database)}"

    @property
    def is_local(self) -> bool:
        """Whether the server is on this computer."""
        return is_loopback(self.host)

    @classmethod
    def parse(cls, url: str, *, tls: bool | None = None, **settings: object) -> PostgresAddress:
        """Return the address in a URL; without ``tls``, connections to other computers are encrypted.

        >>> str(PostgresAddress.parse("postgresql://cgsa@db.plant/plant"))
        'postgresql://cgsa@db.plant:5432/plant'
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 5432
        except ValueError as error:
            raise ConfigError(f"not the address of a database ({error}); expected such as {EXAMPLE}") from error
        if parts.password is not None:
            # Without the URL itself, since this text may end in a log.
            raise ConfigError("the address of the database has a password; name its file or variable as password")
        database = unquote(parts.path.removeprefix("/"))
        if parts.scheme not in {"postgresql", "postgres"} or not host or not parts.username or not database:
            raise ConfigError(f"{url}: not the address of a database; expected such as {EXAMPLE}")
        if parts.query or parts.fragment or "/" in database:
            raise ConfigError(f"{url}: expected no more than user, host, port and database, such as {EXAMPLE}")
        encrypted = not is_loopback(host) if tls is None else tls
        return cls(host, port, unquote(parts.username), database, tls=encrypted, **settings)  # type: ignore[arg-type]  # the fields below


def is_loopback(host: str) -> bool:
    """Return whether a host is this computer."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
