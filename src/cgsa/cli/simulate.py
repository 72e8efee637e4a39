"""``cgsa simulate``: recordings of a simulated rig, as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from cgsa.cli.console import AsJson, Seed, out, print_json, progress_bar
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.rigs.simulation import SimulationJob

FileFormat: TypeAlias = Literal["parquet", "csv"]
Severity: TypeAlias = Literal["L", "M", "H"]


def simulate_command(
    rig: Annotated[str, typer.Argument(help="Which rig: [b]gearbox[/b] or [b]motor[/b].")],
    folder: Annotated[Path, typer.Argument(help="Where the files go; what is there already is kept.")],
    state: Annotated[list[str] | None, typer.Option(help="Only this state; may be repeated.")] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(help="Only this run, such as torque_circulation_1000rpm_10Nm; default: those of the scenario."),
    ] = None,
    severity: Annotated[Severity | None, typer.Option(help="Size of the faults; default: the scenario's.")] = None,
    specimens: Annotated[int, typer.Option(help="How many assemblies of each state to record.", min=1)] = 3,
    file_format: Annotated[
        FileFormat,
        typer.Option("--format", help="[b]parquet[/b] is small and fast; [b]csv[/b] is the layout of MCC5-THU."),
    ] = "parquet",
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option(help="Runs simulated at once; 0 means one a core.", min=0)] = 0,
    *,
    json: AsJson = False,
) -> None:
    """Simulate a rig and write one file a run, named as MCC5-THU names them.

    Every specimen is an assembly of its own: runout, backlash, preload and
    transfer paths differ, as they do when a real machine is taken apart and
    put together again. A stopped simulation goes on when it is called again.
    """
    from cgsa.data.run import Run
    from cgsa.data.scenario import Scenario, builtin_scenarios
    from cgsa.rigs import RIGS
    from cgsa.rigs.simulation import SimulationJob

    known = RIGS[rig].states
    unknown = [name for name in state or () if name not in known]
    if unknown:
        raise ConfigError(f"rig {rig}: no state {', '.join(map(repr, unknown))}; it has {', '.join(known)}")
    if not run and rig not in builtin_scenarios():
        raise ConfigError(f"rig {rig!r} has no scenario to take its runs from; name them with --run")
    plan = Scenario.load(rig) if rig in builtin_scenarios() else None
    names = run or (plan.runs if plan else ())
    orders = [
        SimulationJob(
            rig,
            name,
            Run.parse(text),
            severity or (plan.severity_of(name) if plan else "H"),
            specimen,
            seed,
            folder,
            file_format,
        )
        for specimen in range(1, specimens + 1)
        for name in state or known
        for text in names
    ]
    new = write_runs(orders, jobs)
    if json:
        print_json({"rig": rig, "files": [str(order.path) for order in orders], "simulated": new})
    else:
        out.print(f"{len(orders)} runs in {folder}, {new} of them new", soft_wrap=True)


def write_runs(orders: Sequence[SimulationJob], jobs: int) -> int:
    """Simulate the runs whose files are not there yet, with a progress bar; return how many those were."""
    from cgsa.rigs.simulation import run_simulations

    missing = [order for order in orders if not order.path.exists()]
    if missing:
        with progress_bar() as bar:
            done = len(orders) - len(missing)
            task = bar.add_task(f"simulating {missing[0].rig}", total=len(orders), completed=done, note="")
            workers = jobs or os.cpu_count() or 1
            run_simulations(missing, workers, lambda path: bar.update(task, advance=1, note=path.name))
    return len(missing)
