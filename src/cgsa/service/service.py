"""A service from its configuration: machines, authentication, sources, sinks and web server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from cgsa.errors import ConfigError
from cgsa.live.monitored import MonitoredPlant
from cgsa.live.plant import Plant
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.config import ServiceConfig
from cgsa.service.login import login_link
from cgsa.service.permissions import create_private_folder, open_to_others
from cgsa.service.reload import Reloader
from cgsa.service.reload_signal import reloading
from cgsa.service.server import Server, create_server
from cgsa.service.signing import verify_bundle
from cgsa.service.sinks import AlarmSinks
from cgsa.service.sources import create_source
from cgsa.service.sources.running import RunningSources
from cgsa.service.store_config import write_place

if TYPE_CHECKING:
    from cgsa.service.telemetry.tracing import Tracing

FIRST = "first-admin"
"""Name of the token that the first start creates."""


@dataclass(frozen=True, eq=False)
class Service:
    """A service that is ready to run."""

    plant: Plant
    authenticator: Authenticator
    server: Server
    config: ServiceConfig
    sources: RunningSources
    sinks: AlarmSinks

    def login_link(self, name: str) -> str:
        """Return a link that logs in an admin with a new token of this name."""
        return login_link(self.config.url, self.authenticator.create_token(name, "admin"))

    @property
    def is_new(self) -> bool:
        """Whether there is no valid token yet."""
        return not any(map(self.authenticator.is_valid, self.authenticator.tokens()))

    def open_files(self) -> list[str]:
        """Return a message for each folder or file of the service that others than its owner may use."""
        own = (Path(self.config.folder), *self.plant.store.files)
        key = () if self.config.tls_key is None else (Path(self.config.tls_key),)
        provider = None if self.config.oidc is None else self.config.oidc.client_secret
        password = None if self.config.store is None else self.config.store.password
        secrets = [Path(one.file) for one in (provider, password) if one is not None and one.file is not None]
        return open_to_others((*own, *key, *secrets, *_secret_files((*self.config.sources, *self.config.sinks))))

    def run(self, listening: socket.socket | None = None, load: Callable[[], ServiceConfig] | None = None) -> None:
        """Serve until the process receives a signal to end; on a socket that listens already, if there is one.

        With SIGHUP, reload the configuration that ``load`` returns then.
        """
        with reloading(None if load is None else Reloader(self, load)):
            self.server.run(None if listening is None else [listening])


def create_service(config: ServiceConfig) -> Service:
    """Return the service that a configuration describes; nothing starts before it runs."""

    def verify(folder: Path, manifest: bytes) -> None:
        if config.trusted_keys:
            verify_bundle(folder, config.trusted_keys, manifest=manifest)

    create_private_folder(Path(config.folder))
    tracing = None
    if config.telemetry is not None:
        tracing = _extra("otel", "telemetry.tracing").Tracing(config.telemetry)
    plant = Plant(
        config.folder,
        threads=config.threads or None,
        processes=config.uses_processes,
        config=config.worker,
        retention=config.retention,
        ledger=config.ledger,
        device=config.device,
        verify=verify,
        on_processed=None if tracing is None else tracing.trace_batch,
        store=None if config.store is None else config.store.address(),
    )
    write_place(Path(config.folder), config.store)
    # Before the first machine: after a kill, a machine at once repeats events that may not have been delivered.
    sinks = AlarmSinks(plant, Path(config.folder) / "outbox", config.sink_tables, escalation=config.escalation)
    for machine in config.machines:
        plant.add(machine)
    authenticator = Authenticator(plant.store)
    sources = RunningSources([create_source(plant, table) for table in config.sources])
    sources.remember(config.sources)
    server = web_server(config, plant, authenticator, sources=sources, sinks=sinks, tracing=tracing)
    return Service(plant, authenticator, server, config, sources, sinks)


def web_server(
    config: ServiceConfig,
    plant: MonitoredPlant,
    authenticator: Authenticator,
    *,
    sources: RunningSources,
    sinks: AlarmSinks | None = None,
    tracing: Tracing | None = None,
    dashboard: bool = True,
) -> Server:
    """Return the server of API and pages over machines, with the addresses, limits and logins of a configuration."""
    oidc = None
    if config.oidc is not None:
        oidc = _extra("oidc", "oidc.client").OidcClient(config.oidc, config.url)
    return create_server(
        create_app(
            plant,
            authenticator,
            sources=sources,
            sinks=sinks,
            limits=config.limits,
            oidc=oidc,
            tracing=tracing,
            dashboard=dashboard,
        ),
        host=config.host,
        port=config.port,
        certificate=None if config.tls_certificate is None else Path(config.tls_certificate),
        key=None if config.tls_key is None else Path(config.tls_key),
        proxies=config.proxies,
    )


def _extra(extra: str, module: str) -> ModuleType:
    """Return a module of the service whose packages come with an extra."""
    try:
        return import_module(f"cgsa.service.{module}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this configuration needs {error.name}; install it with pip install 'cgsa[{extra}]'"
        ) from error


def _secret_files(value: object) -> Iterator[Path]:
    """Yield the files in which the settings of sources and sinks say that a secret is."""
    if isinstance(value, Mapping):
        # As in `password = { file = "/etc/cgsa/mail-password" }`; see cgsa.service.links.secret.
        if value.keys() == {"file"}:
            yield Path(str(value["file"]))
        for one in value.values():
            yield from _secret_files(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _secret_files(one)
