"""``cgsa fleet``: many machines on many nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json, print_table, talk
from cgsa.cli.fleet_rollout import roll_out
from cgsa.cli.service_folder import require_package
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.fleet.assignments import AssignmentTable
    from cgsa.fleet.cluster import Fleet
    from cgsa.fleet.config import FleetConfig
    from cgsa.fleet.shard import ShardStatus

LOCAL_RAY = "ray"
"""Folder of a Ray cluster on this computer, in that of the fleet."""
HEADER = ("machine", "shard", "position", "windows", "learnt from", "state", "problem")


def fleet_command(
    config: Annotated[Path, typer.Argument(metavar="FLEET", help="Configuration file of the fleet (TOML).")],
    *,
    status: Annotated[bool, typer.Option("--status", help="Show machines and shards of a running fleet.")] = False,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Watch the machines of the file that the fleet does not watch so far; starts it on a cluster of Ray.",
        ),
    ] = False,
    remove: Annotated[str | None, typer.Option(metavar="MACHINE", help="Watch a machine no more.")] = None,
    move: Annotated[
        tuple[str, str] | None, typer.Option(metavar="MACHINE SHARD", help="Move a machine to a shard.")
    ] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="Have this many shards from now on.")] = None,
    rebalance: Annotated[bool, typer.Option("--rebalance", help="Spread machines by their measured load.")] = False,
    rollout: Annotated[
        Path | None,
        typer.Option(metavar="BUNDLE", help="Run a new bundle in shadow on some machines, to compare it with theirs."),
    ] = None,
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the machines that get the new bundle first.")
    ] = 0.1,
    replaces: Annotated[
        Path | None,
        typer.Option(metavar="BUNDLE", help="Bundle that the new one replaces, if machines have different ones."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare the two models of a roll-out on the machines that have both.")
    ] = False,
    promote: Annotated[
        bool,
        typer.Option("--promote", help="Put the new model in charge of the chosen machines, and the next time of all."),
    ] = False,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="End a roll-out with the old model in charge of all machines.")
    ] = False,
    gateway: Annotated[
        bool, typer.Option("--gateway", help="Only publish what the sources of the file bring; for another computer.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Monitor many machines on Ray, with NATS JetStream between sources and shards.

    [b]cgsa fleet fleet.toml[/b] starts the fleet, on this computer unless the file
    names a Ray cluster, and publishes what its sources bring. It runs until it is
    stopped. After a kill of anything at any time it resumes with bit-identical
    results.

    The options ask or change a fleet that runs.
    """
    for package in ("ray", "nats"):
        require_package(package, "fleet")
    from cgsa.fleet.config import FleetConfig

    settings = FleetConfig.load(config)
    if gateway:
        _publish(settings)
    elif rollout or compare or promote or take_back:
        with _connect(settings) as fleet:
            roll_out(fleet, rollout, share, replaces, promote=promote, take_back=take_back, as_json=json)
    elif status or apply or remove or move or shards or rebalance:
        with _connect(settings) as fleet:
            if apply:
                fleet.start()
            _change(fleet, remove=remove, move=move, shards=shards, rebalance=rebalance)
            _show(fleet.table(), fleet.statuses(), as_json=json)
    else:
        _run(settings)


def _change(
    fleet: Fleet, *, remove: str | None, move: tuple[str, str] | None, shards: int | None, rebalance: bool
) -> None:
    if remove is not None:
        fleet.remove(remove)
    if move is not None:
        fleet.move(*move)
    if shards is not None:
        fleet.set_shards(tuple(f"s{number}" for number in range(1, shards + 1)))
    if rebalance:
        fleet.rebalance()


def _run(settings: FleetConfig) -> None:
    """Run a fleet until it is stopped."""
    import os

    from cgsa.fleet.local_ray import LocalRay

    if settings.ray.address is not None:
        with _connect(settings) as fleet:
            _work(fleet, settings)
        return
    cluster = LocalRay(Path(settings.folder) / LOCAL_RAY, cores=max(settings.shards, os.cpu_count() or 1))
    # Ray of this process can be set up only once the cluster is there.
    with cluster, _connect(settings) as fleet:
        try:
            _work(fleet, settings)
        finally:
            talk.print("saving all machines")
            fleet.stop()


def _work(fleet: Fleet, settings: FleetConfig) -> None:
    fleet.start()
    table = fleet.table()
    talk.print(f"{len(table.assignments)} machines on {len(table.shards)} shards; press Ctrl-C to stop")
    if settings.sources:
        _publish(settings)
    while True:
        time.sleep(3600)


def _connect(settings: FleetConfig) -> Fleet:
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


def _publish(settings: FleetConfig) -> None:
    """Publish what the sources bring, until it is stopped."""
    import asyncio

    require_package("aiomqtt")
    from cgsa.fleet.gateway import Gateway, KnownMachines
    from cgsa.fleet.log.jetstream import JetStreamLog
    from cgsa.service.sources import create_source
    from cgsa.service.sources.running import RunningSources

    others = sorted({str(table.get("kind")) for table in settings.sources} - {"mqtt", "opcua"})
    if others or not settings.sources:
        raise ConfigError(
            f"sources of a fleet: {', '.join(others) or 'none'}; expected some of the kinds mqtt and opcua"
        )
    with JetStreamLog(settings.log) as log:
        gateway = Gateway(log, KnownMachines(settings.assignments_folder()), settings.gateway)
        asyncio.run(RunningSources([create_source(gateway, table) for table in settings.sources]).run())


def _show(table: AssignmentTable, statuses: Mapping[str, ShardStatus], *, as_json: bool) -> None:
    hosted = {one.machine: one for shard in statuses.values() for one in shard.machines}
    rows = []
    for name, assignment in sorted(table.by_machine.items()):
        found = hosted.get(name)
        problem = "" if found is None else found.stopped or "; ".join(one.reason for one in found.problems)
        rows.append(
            {
                "machine": name,
                "shard": assignment.shard,
                "position": None if found is None else found.position,
                "windows": None if found is None else found.windows,
                "learnt": None if found is None else found.learnt,
                "state": None if found is None or found.diagnosis is None else found.diagnosis.state,
                "problem": problem or ("its shard does not answer" if found is None else None),
            }
        )
    if as_json:
        shards = [
            {"shard": name, "answers": name in statuses, "machines": len(table.of_shard(name))} for name in table.shards
        ]
        print_json({"machines": rows, "shards": shards})
        return
    print_table(HEADER, [tuple("" if value is None else str(value) for value in row.values()) for row in rows])
    out.print(f"{len(table.shards)} shards, {len(statuses)} of which answer")
