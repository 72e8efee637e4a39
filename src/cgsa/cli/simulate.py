"""``cgsa simulate``: write recordings of a simulated rig to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from cgsa.cli.console import AsJson, Seed, out, print_json, progress_bar
from cgsa.data.run import Run, Severity
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.rigs.simulation import SimulationJob

FileFormat: TypeAlias = Literal["parquet", "csv"]


def simulate_command(
    rig: Annotated[str, typer.Argument(metavar="RIG", help="The rig: [b]gearbox[/b] or [b]motor[/b].")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the files; existing files are kept.")],
    state: Annotated[list[str] | None, typer.Option(help="Simulate only this state; may be repeated.")] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Simulate only this run, such as torque_circulation_1000rpm_10Nm; default: the runs of the scenario."
        ),
    ] = None,
    severity: Annotated[
        Severity | None, typer.Option(help="Severity of the faults; default: that of the scenario.")
    ] = None,
    specimens: Annotated[int, typer.Option(help="Number of assemblies of each state.", min=1)] = 3,
    file_format: Annotated[
        FileFormat,
        typer.Option("--format", help="[b]parquet[/b] is small and fast; [b]csv[/b] is the layout of MCC5-THU."),
    ] = "parquet",
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option(help="Runs to simulate in parallel; 0 means one per core.", min=0)] = 0,
    *,
    json: AsJson = False,
) -> None:
    """Simulate a rig and write one file per run, named as in MCC5-THU.

    Every specimen is a separate assembly: runout, backlash, preload and transfer
    paths differ, as after the reassembly of a real machine. Run the command again
    to resume an interrupted simulation.
    """
    from cgsa.data.scenario import Scenario, builtin_scenarios
    from cgsa.rigs import RIGS
    from cgsa.rigs.simulation import SimulationJob

    known = RIGS[rig].states
    unknown = [name for name in state or () if name not in known]
    if unknown:
        raise ConfigError(f"rig {rig}: no state {', '.join(map(repr, unknown))}; it has {', '.join(known)}")
    if not run and rig not in builtin_scenarios():
        raise ConfigError(f"rig {rig!r} has no scenario with its runs; pass them with --run")
    plan = Scenario.load(rig) if rig in builtin_scenarios() else None
    runs = run or (plan.runs if plan else ())
    sizes: dict[str, Severity] = {name: severity or (plan.severity_of(name) if plan else "H") for name in known}
    simulations = [
        SimulationJob(rig, name, Run.parse(text), sizes[name], specimen, seed, folder, file_format)
        for specimen in range(1, specimens + 1)
        for name in state or known
        for text in runs
    ]
    new = write_runs(simulations, jobs)
    if json:
        print_json({"rig": rig, "files": [str(simulation.path) for simulation in simulations], "simulated": new})
    else:
        out.print(f"{len(simulations)} runs in {folder}, {new} of them new", soft_wrap=True)


def write_runs(simulations: Sequence[SimulationJob], jobs: int) -> int:
    """Simulate the runs that have no file yet, with a progress bar; return their number."""
    from cgsa.rigs.simulation import run_simulations

    missing = [simulation for simulation in simulations if not simulation.path.exists()]
    if missing:
        with progress_bar() as bar:
            done = len(simulations) - len(missing)
            task = bar.add_task(f"simulating {missing[0].rig}", total=len(simulations), completed=done, note="")
            workers = jobs or os.cpu_count() or 1
            run_simulations(missing, workers, lambda path: bar.update(task, advance=1, note=path.name))
    return len(missing)
