"""The configuration of a service: one TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path

from cgsa.config import bind, read_toml
from cgsa.errors import ConfigError
from cgsa.live.plant import MachineConfig
from cgsa.live.store import RowRetention
from cgsa.live.worker import WorkerConfig


@dataclass(frozen=True)
class ServiceConfig:
    """All settings of a service."""

    folder: str = "plant"
    """Where everything is kept, as seen from the file."""
    host: str = "127.0.0.1"
    """Only this machine by default."""
    port: int = 8765
    tls_certificate: str | None = None
    """File with the certificate; the service is spoken to through TLS."""
    tls_key: str | None = None
    """File with its key."""
    trusted_keys: tuple[str, ...] = ()
    """Files with public keys; only models signed with one of them are loaded. None means that signatures do not
    matter."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies that are believed when they say whom they speak for."""
    lanes: int = 0
    """Threads that work on machines; 0 means one a core."""
    device: str = "cpu"
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    retention: RowRetention = field(default_factory=RowRetention)
    machines: tuple[MachineConfig, ...] = ()
    """Their models are seen from the file."""
    sources: tuple[Mapping[str, object], ...] = ()
    """Where blocks come from besides HTTP; see :mod:`cgsa.service.sources`."""
    sinks: tuple[Mapping[str, object], ...] = ()
    """Who is told of alarms; see :mod:`cgsa.service.sinks`."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65_536 or self.lanes < 0:
            raise ConfigError(
                f"port {self.port}, lanes {self.lanes}; expected a port below 65,536, and 0 or more lanes"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("tls_certificate and tls_key; expected both or none")
        names = [machine.name for machine in self.machines]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"machines {', '.join(twice)} twice; expected different names")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the service."""
        shown = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104, only shown
        shown = f"[{shown}]" if ":" in shown else shown
        return f"{'http' if self.tls_certificate is None else 'https'}://{shown}:{self.port}"

    @classmethod
    def load(cls, path: Path) -> ServiceConfig:
        """Read a file; paths in it are seen from where it lies."""
        config = bind(cls, read_toml(path), str(path))
        beside = path.parent
        sources = tuple(_beside(table, beside) for table in config.sources)
        return replace(
            config,
            folder=str(beside / config.folder),
            tls_certificate=_path(config.tls_certificate, beside),
            tls_key=_path(config.tls_key, beside),
            trusted_keys=tuple(str(beside / key) for key in config.trusted_keys),
            machines=tuple(replace(machine, bundle=beside / machine.bundle) for machine in config.machines),
            sources=sources,
        )


def _path(name: str | None, beside: Path) -> str | None:
    return None if name is None else str(beside / name)


def _beside(table: Mapping[str, object], beside: Path) -> Mapping[str, object]:
    """Return the settings of a source with its recordings seen from where the file lies."""
    files = table.get("files")
    if not isinstance(files, list | tuple):
        return table
    return {**table, "files": [str(beside / str(name)) for name in files]}
