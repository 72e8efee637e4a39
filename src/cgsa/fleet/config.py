"""Settings of a fleet, from one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cgsa.config import bind, read_toml
from cgsa.errors import ConfigError
from cgsa.fleet.controller import ControllerConfig
from cgsa.fleet.gateway import GatewayConfig
from cgsa.fleet.log.jetstream import JetStreamConfig
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.shard import ShardConfig
from cgsa.live.plant import MachineConfig
from cgsa.live.store import LedgerBudget, RowRetention
from cgsa.service.config import ServiceConfig, resolve_machine
from cgsa.service.limits import RequestLimits
from cgsa.service.oidc.config import OidcConfig
from cgsa.service.store_config import StoreConfig


@dataclass(frozen=True)
class RayConfig:
    """The Ray cluster."""

    address: str | None = None
    """Address of a running cluster, such as 127.0.0.1:6379; None starts one on this computer, on loopback."""
    namespace: str = "cgsa"
    """Names of actors are looked up in it, so that fleets can share a cluster."""
    cpus_per_shard: float = 1.0
    """Cores that Ray sets aside for a shard, which computes on one."""


@dataclass(frozen=True)
class FleetServiceConfig:
    """API and pages of a fleet, in the process that starts it; they are those of a service."""

    host: str = "127.0.0.1"
    """By default reachable from this computer only."""
    port: int = 8765
    """Port to listen on; 0 means any free one."""
    address: str | None = None
    """Address for browsers and senders, such as that of a proxy; None means that of host and port."""
    tls_certificate: str | None = None
    """File of the certificate; with it, connections use TLS."""
    tls_key: str | None = None
    """File of its key."""
    proxies: tuple[str, ...] = ()
    """Addresses of trusted proxies, whose ``X-Forwarded-For`` header is used."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    oidc: OidcConfig | None = None
    """Identity provider, besides tokens."""


@dataclass(frozen=True)
class FleetConfig:
    """Where a fleet keeps its data, and what it watches."""

    folder: str = "fleet"
    """Folder of the store, on the computer that has it."""
    store: StoreConfig | None = None
    """A PostgreSQL database, which all shards write; None means a file in the folder, which one process writes for
    them."""
    states: str = ""
    """Folder of saved states and assignments that all shards reach: a path, or an address such as ``s3://bucket/fleet``;
    empty means ``states`` in the folder."""
    shards: int = 2
    """Shards at the first start; each computes on one core."""
    log: JetStreamConfig = field(default_factory=JetStreamConfig)
    shard: ShardConfig = field(default_factory=ShardConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    ray: RayConfig = field(default_factory=RayConfig)
    retention: RowRetention = field(default_factory=RowRetention)
    ledger: LedgerBudget = field(default_factory=LedgerBudget)
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    service: FleetServiceConfig = field(default_factory=FleetServiceConfig)
    sources: tuple[Mapping[str, object], ...] = ()
    """Where the blocks come from: tables as in the configuration of a service, of the kinds ``mqtt`` and ``opcua``."""
    machines: tuple[MachineConfig, ...] = ()
    """Machines at the first start, and further ones since."""

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise ConfigError(f"shards {self.shards}; expected at least 1")
        names = [machine.name for machine in self.machines]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"machines {', '.join(twice)} twice; expected different names")

    @classmethod
    def load(cls, path: Path) -> FleetConfig:
        """Read a file; paths in it are relative to its folder."""
        return cls.from_table(read_toml(path), path)

    @classmethod
    def from_table(cls, table: Mapping[str, object], path: Path) -> FleetConfig:
        """Bind the content of a file; paths in it are relative to its folder."""
        config, place = bind(cls, table, str(path)), path.parent.resolve()
        nats, service = config.log.nats, config.service
        tls: dict[str, Any] = {
            name: str(place / found) for name in ("tls_certificate", "tls_key") if (found := getattr(service, name))
        }
        files = ("password_file", "token_file", "credentials", "ca_file", "cert_file", "key_file")
        given: dict[str, Any] = {
            name: str(place / getattr(nats, name)) for name in files if getattr(nats, name) is not None
        }
        return replace(
            config,
            folder=str(place / config.folder),
            store=None if config.store is None else config.store.resolved(place),
            service=replace(service, **tls),
            states=config.states if "://" in config.states or not config.states else str(place / config.states),
            log=replace(config.log, nats=replace(nats, **given)),
            machines=tuple(
                replace(resolve_machine(one, place), bundle=str(place / one.bundle)) for one in config.machines
            ),
        )

    def service_config(self) -> ServiceConfig:
        """Return the settings of API and pages as those of a service."""
        own = {one.name: getattr(self.service, one.name) for one in fields(self.service)}
        return ServiceConfig(folder=self.folder, store=self.store, machines=self.machines, **own)

    def states_folder(self) -> ObjectFolder:
        """Return the folder of the machines' states."""
        return self._shared_folder().below("machines")

    def assignments_folder(self) -> ObjectFolder:
        """Return the folder of the assignments."""
        return self._shared_folder().below("assignments")

    def _shared_folder(self) -> ObjectFolder:
        return ObjectFolder.of(self.states or str(Path(self.folder) / "states"))
