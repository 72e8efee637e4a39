"""What ``cgsa fleet`` does once its settings are known: it starts a fleet, connects to one, or publishes to its log."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.cli.console import talk
from cgsa.cli.serve_run import announce, announce_exposure, show_link
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.fleet.cluster import Fleet
    from cgsa.fleet.config import FleetConfig

LOCAL_RAY = "ray"
"""Folder of a Ray cluster on this computer, in that of the fleet."""


def run_fleet(settings: FleetConfig, *, token: str | None = None) -> None:
    """Run a fleet with its API and pages until it is stopped; ``token`` is the name of a new token for an admin."""
    import os

    from cgsa.fleet.local_ray import LocalRay

    # As with Ctrl-C, all machines are saved.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if settings.ray.address is not None:
        with connect_fleet(settings) as fleet:
            _work(fleet, settings, token)
        return
    cluster = LocalRay(Path(settings.folder) / LOCAL_RAY, cores=max(settings.shards, os.cpu_count() or 1))
    # Ray of this process can be set up only once the cluster is there.
    with cluster, connect_fleet(settings) as fleet:
        try:
            _work(fleet, settings, token)
        finally:
            talk.print("saving all machines")
            fleet.stop()


def connect_fleet(settings: FleetConfig) -> Fleet:
    """Return a running fleet; its Ray is the one that the file names, or that of this computer."""
    from cgsa.fleet.local_ray import use_local_ray

    address = settings.ray.address
    if address is None:
        address = use_local_ray(Path(settings.folder) / LOCAL_RAY)
        if address is None:
            raise ConfigError(f"{settings.folder}: no fleet runs here; start it, or name its cluster: ray.address")
    # Ray reads its environment on import.
    from cgsa.fleet.cluster import Fleet

    return Fleet(settings, address)


def publish(settings: FleetConfig) -> None:
    """Publish to the log what the sources bring and, with a store that can be reached, what comes over HTTP."""
    import asyncio

    from cgsa.fleet.log.jetstream import JetStreamLog
    from cgsa.fleet.service import open_gateway, open_sources

    if settings.store is not None:
        _serve(settings, None, None)
        return
    if not settings.sources:
        raise ConfigError(
            "nothing to publish; expected sources of the kinds mqtt and opcua, or the table store, whose tokens HTTP "
            "needs"
        )
    with JetStreamLog(settings.log) as log:
        asyncio.run(open_sources(settings, open_gateway(settings, log)).run())


def _work(fleet: Fleet, settings: FleetConfig, token: str | None) -> None:
    fleet.start()
    table = fleet.table()
    talk.print(f"{len(table.assignments)} machines on {len(table.shards)} shards; press Ctrl-C to stop")
    _serve(settings, fleet, token)


def _serve(settings: FleetConfig, fleet: Fleet | None, token: str | None) -> None:
    """Serve API and pages, or the API alone without a fleet, and run the sources, until all is stopped."""
    from cgsa.fleet.log.jetstream import JetStreamLog
    from cgsa.fleet.service import create_fleet_service, open_store
    from cgsa.service.logs import configure_logging
    from cgsa.service.service import FIRST

    store = open_store(settings, None if fleet is None else fleet.write_each)
    with JetStreamLog(settings.log) as log:
        service = create_fleet_service(settings, store, log, dashboard=fleet is not None)
        configure_logging(style=service.config.log_format)
        announce_exposure(service.config)
        if token is not None or service.is_new:
            what = "log in" if token is not None else "first login, shown only once"
            show_link(service.config, what, service.login_link(token or FIRST))
        announce(service.config, f"serving at {service.config.url}", note=False)
        service.server.run()
