"""``cgsa fleet``: many machines on many nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json, print_table
from cgsa.cli.fleet_demo import run_fleet_demo
from cgsa.cli.fleet_run import connect_fleet, publish, run_fleet
from cgsa.cli.service_folder import require_package
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.fleet.assignments import AssignmentTable
    from cgsa.fleet.cluster import Fleet
    from cgsa.fleet.shard import ShardStatus
    from cgsa.live.plant import MachineConfig

HEADER = ("machine", "shard", "position", "windows", "learnt from", "state", "problem")


def fleet_command(
    config: Annotated[
        Path | None, typer.Argument(metavar="FLEET", help="Configuration file of the fleet (TOML).")
    ] = None,
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Run a fleet of simulated gearboxes, with all that it needs.")
    ] = False,
    folder: Annotated[Path, typer.Option(help="With [b]--demo[/b]: folder of everything.")] = Path("demo-fleet"),
    port: Annotated[int, typer.Option(help="With [b]--demo[/b]: port of the pages.", min=1, max=65535)] = 8765,
    status: Annotated[bool, typer.Option("--status", help="Show machines and shards of a running fleet.")] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Watch the machines of the file that a running fleet does not watch so far.")
    ] = False,
    remove: Annotated[str | None, typer.Option(metavar="MACHINE", help="Watch a machine no more.")] = None,
    move: Annotated[
        tuple[str, str] | None, typer.Option(metavar="MACHINE SHARD", help="Move a machine to a shard.")
    ] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="Have this many shards from now on.")] = None,
    rebalance: Annotated[bool, typer.Option("--rebalance", help="Spread machines by their measured load.")] = False,
    gateway: Annotated[
        bool,
        typer.Option("--gateway", help="Only publish what HTTP and the sources bring; for another computer."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Monitor many machines on Ray, with NATS JetStream between sources and shards.

    [b]cgsa fleet fleet.toml[/b] starts the fleet, on this computer unless the file
    names a Ray cluster, publishes what its sources bring, and serves API and pages
    as [b]cgsa serve[/b] does. It runs until it is stopped. After a kill of anything
    at any time it resumes with bit-identical results.

    [b]cgsa fleet --demo[/b] starts a fleet of simulated gearboxes with a log of its
    own; it needs the program nats-server.

    The other options ask or change a fleet that runs.
    """
    if demo == (config is not None):
        raise ConfigError("no fleet to run; expected a configuration file or --demo, such as: cgsa fleet --demo")
    for package in ("ray", "nats"):
        require_package(package, "fleet")
    require_package("fastapi")
    if config is None:
        run_fleet_demo(folder, port)
        return
    from cgsa.fleet.config import FleetConfig

    settings = FleetConfig.load(config)
    changes = FleetChanges(settings.machines if apply else (), remove, move, shards, rebalance=rebalance)
    if gateway:
        publish(settings)
    elif status or apply or changes != FleetChanges():
        with connect_fleet(settings) as fleet:
            changes.make(fleet)
            _show(fleet.table(), fleet.statuses(), as_json=json)
    else:
        run_fleet(settings)


@dataclass(frozen=True)
class FleetChanges:
    """What the options change."""

    add: tuple[MachineConfig, ...] = ()
    remove: str | None = None
    move: tuple[str, str] | None = None
    shards: int | None = None
    rebalance: bool = False

    def make(self, fleet: Fleet) -> None:
        """Change a fleet that runs."""
        if self.add:
            fleet.add(*self.add)
        if self.remove is not None:
            fleet.remove(self.remove)
        if self.move is not None:
            fleet.move(*self.move)
        if self.shards is not None:
            fleet.set_shards(tuple(f"s{number}" for number in range(1, self.shards + 1)))
        if self.rebalance:
            fleet.rebalance()


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
