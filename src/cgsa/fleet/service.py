"""API and pages of a fleet: those of a service, over the store and the log that all shards use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.errors import ConfigError
from cgsa.fleet.config import FleetConfig
from cgsa.fleet.gateway import Gateway, KnownMachines
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.monitored_fleet import MonitoredFleet
from cgsa.fleet.remote_database import RemoteDatabase, WriteEach
from cgsa.live.intake.receiver import BlockReceiver
from cgsa.live.store import Store
from cgsa.live.store.opening import STORE_FILE
from cgsa.service.auth import Authenticator
from cgsa.service.login import login_link
from cgsa.service.permissions import create_private_folder
from cgsa.service.service import web_server
from cgsa.service.sources import create_source
from cgsa.service.sources.running import RunningSources
from cgsa.service.store_config import write_place

if TYPE_CHECKING:
    from cgsa.service.config import ServiceConfig
    from cgsa.service.server import Server


@dataclass(frozen=True, eq=False)
class FleetService:
    """API and pages that are ready to run."""

    config: ServiceConfig
    authenticator: Authenticator
    server: Server

    @property
    def is_new(self) -> bool:
        """Whether there is no valid token yet."""
        return not any(map(self.authenticator.is_valid, self.authenticator.tokens()))

    def login_link(self, name: str) -> str:
        """Return a link that logs in an admin with a new token of this name."""
        return login_link(self.config.url, self.authenticator.create_token(name, "admin"))


def open_store(settings: FleetConfig, write_each: WriteEach | None) -> Store:
    """Return the store of a fleet; ``write_each`` has the process write that has its file open."""
    path = Path(settings.folder) / STORE_FILE
    if settings.store is not None:
        return Store(settings.store.address())
    if write_each is None:
        raise ConfigError(f"{path}: only the computer that has this file can use it; expected the table store")
    store = Store(RemoteDatabase(path, write_each))
    # Whoever writes the file creates it.
    store.flush()
    if not path.exists():
        store.close()
        raise ConfigError(f"{path}: Ray has placed the store on another computer; expected the table store")
    return store


def create_fleet_service(
    settings: FleetConfig, store: Store, log: ReplayableLog, *, dashboard: bool = True
) -> FleetService:
    """Return API and pages over a fleet; with them run the sources of its configuration."""
    config = settings.service_config()
    folder = Path(config.folder)
    create_private_folder(folder)
    write_place(folder, config.store)
    gateway = open_gateway(settings, log)
    fleet = MonitoredFleet(store, gateway, settings.assignments_folder(), settings.states_folder())
    authenticator = Authenticator(store)
    sources = open_sources(settings, fleet, ("mqtt", "opcua", "replay"))
    return FleetService(
        config, authenticator, web_server(config, fleet, authenticator, sources=sources, dashboard=dashboard)
    )


def open_gateway(settings: FleetConfig, log: ReplayableLog) -> Gateway:
    """Return a gateway to the machines of a fleet."""
    return Gateway(log, KnownMachines(settings.assignments_folder()), settings.gateway)


def open_sources(
    settings: FleetConfig, receiver: BlockReceiver, kinds: tuple[str, ...] = ("mqtt", "opcua")
) -> RunningSources:
    """Return the sources of a configuration, which publish what they bring; some kinds ask how machines are."""
    others = sorted({str(table.get("kind")) for table in settings.sources} - set(kinds))
    if others:
        raise ConfigError(f"sources of a fleet: {', '.join(others)}; expected some of the kinds {', '.join(kinds)}")
    return RunningSources([create_source(receiver, table) for table in settings.sources])
