"""Configuration of a service: one TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cgsa.config import bind, formerly, read_toml
from cgsa.errors import ConfigError
from cgsa.live.plant import MachineConfig
from cgsa.live.store import LedgerBudget, RowRetention
from cgsa.live.worker import WorkerConfig
from cgsa.service.limits import RequestLimits
from cgsa.service.logs import LogFormat
from cgsa.service.oidc.config import OidcConfig, is_safe_address
from cgsa.service.sinks.escalation import EscalationConfig
from cgsa.service.store_config import StoreConfig
from cgsa.service.telemetry.config import TelemetryConfig

MANY_MACHINES = 8
"""From so many machines on, diagnoses are computed in processes of their own unless a setting says otherwise."""


@dataclass(frozen=True)
class ServiceConfig:
    """All settings of a service."""

    folder: str = "plant"
    """Folder of all data, relative to the file."""
    host: str = "127.0.0.1"
    """By default reachable from this machine only."""
    port: int = 8765
    """Port to listen on; 0 means any free one."""
    address: str | None = None
    """Address of the service for browsers and senders, such as that of a proxy: https://cgsa.plant; None means that of
    host and port."""
    tls_certificate: str | None = None
    """File of the certificate; with it, the service uses TLS."""
    tls_key: str | None = None
    """File of its key."""
    trusted_keys: tuple[str, ...] = ()
    """Files of public keys; only models signed with one of them are loaded. Empty means that signatures are not
    checked."""
    proxies: tuple[str, ...] = ()
    """Addresses of trusted proxies, whose ``X-Forwarded-For`` header is used."""
    log_format: LogFormat = "text"
    """One line of text per message, or one JSON object."""
    threads: int = field(default=0, metadata=formerly("lanes"))
    """Worker threads; 0 means one per core."""
    processes: bool | None = None
    """Whether every worker thread has a process of its own that computes the diagnoses of its machines. It costs memory
    (about 0.5 GB each), and machines do not wait for each other. By default, so it is from eight machines on."""
    device: str = "cpu"
    """Where models compute, such as ``cpu`` or ``cuda``."""
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    retention: RowRetention = field(default_factory=RowRetention)
    ledger: LedgerBudget = field(default_factory=LedgerBudget)
    store: StoreConfig | None = None
    """Where the store is, if several nodes write it; None means a file in the folder."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    oidc: OidcConfig | None = None
    """Identity provider, besides tokens."""
    telemetry: TelemetryConfig | None = None
    """Where traces of requests and batches go; none are made without it."""
    machines: tuple[MachineConfig, ...] = ()
    """Paths of their models, kinematics and healthy recordings are relative to the file."""
    sources: tuple[Mapping[str, object], ...] = ()
    """Sources of blocks besides HTTP; see :mod:`cgsa.service.sources`."""
    sinks: tuple[Mapping[str, object], ...] = ()
    """Receivers of alarms; see :mod:`cgsa.service.sinks`."""
    escalation: EscalationConfig = field(default_factory=EscalationConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65_536 or self.threads < 0:
            raise ConfigError(
                f"port {self.port}, threads {self.threads}; expected a port below 65,536, and 0 or more threads"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("tls_certificate and tls_key; expected both or neither")
        if self.oidc is not None and not is_safe_address(self.url):
            raise ConfigError(
                f"{self.url}: an identity provider sends people to https addresses only; expected an address such as "
                "https://cgsa.plant (setting address), or a TLS certificate"
            )
        names = [machine.name for machine in self.machines]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"machines {', '.join(twice)} twice; expected different names")

    @property
    def uses_processes(self) -> bool:
        """Whether diagnoses are computed in processes of their own."""
        if self.processes is None:
            return self.device == "cpu" and len(self.machines) >= MANY_MACHINES
        return self.processes

    @property
    def is_local(self) -> bool:
        """Whether the service is reachable from this machine only."""
        address = self._address
        return self.host == "localhost" if address is None else address.is_loopback

    @property
    def url(self) -> str:
        """Address of the service for browsers; without the setting, for one on this machine."""
        if self.address is not None:
            return self.address.rstrip("/")
        address = self._address
        host = "127.0.0.1" if address is not None and address.is_unspecified else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{self.port}"

    @property
    def _address(self) -> IPv4Address | IPv6Address | None:
        """The host as an IP address; None if it is a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def sink_tables(self) -> list[Mapping[str, object]]:
        """Settings of the sinks; mails link to the pages unless a setting names the address of a proxy."""
        return [{"link": self.url, **table} if table.get("kind") == "email" else table for table in self.sinks]

    @classmethod
    def load(cls, path: Path) -> ServiceConfig:
        """Read a file; paths in it are relative to its folder."""
        return cls.from_table(read_toml(path), path)

    @classmethod
    def from_table(cls, table: Mapping[str, object], path: Path) -> ServiceConfig:
        """Bind the content of a file; paths in it are relative to its folder."""
        config = bind(cls, table, str(path))
        folder = path.parent
        return replace(
            config,
            folder=str(folder / config.folder),
            store=None if config.store is None else config.store.resolved(folder),
            tls_certificate=_path(config.tls_certificate, folder),
            tls_key=_path(config.tls_key, folder),
            trusted_keys=tuple(str(folder / key) for key in config.trusted_keys),
            machines=tuple(resolve_machine(machine, folder) for machine in config.machines),
            sources=tuple(_resolve_files(table, folder) for table in config.sources),
        )


def _path(name: str | None, folder: Path) -> str | None:
    return None if name is None else str(folder / name)


def resolve_machine(machine: MachineConfig, folder: Path) -> MachineConfig:
    """Return the settings of a machine with paths that do not depend on where the service runs."""
    known = machine.explain
    kinematics = known.kinematics
    if kinematics is not None and kinematics.endswith(".toml"):
        kinematics = str(folder / kinematics)
    explain = replace(known, kinematics=kinematics, healthy=tuple(str(folder / one) for one in known.healthy))
    return replace(machine, bundle=folder / machine.bundle, explain=explain)


def _resolve_files(table: Mapping[str, object], folder: Path) -> Mapping[str, object]:
    """Return the settings of a source with absolute paths of its recordings or of its folder."""
    if table.get("kind") == "folder" and isinstance(table.get("folder"), str):
        return {**table, "folder": str(folder / str(table["folder"]))}
    files = table.get("files")
    if not isinstance(files, list | tuple):
        return table
    return {**table, "files": [str(folder / str(name)) for name in files]}
