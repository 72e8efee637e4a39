"""``cgsa bench``: compare methods according to a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cgsa.cli import plans, preflight, rotate
from cgsa.cli.console import AsJson, Device, out, pick_device, print_json, print_table


def bench_command(
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            help="A plan by name (such as [b]core[/b]), a .toml file, [b]rotate[/b], [b]readings[/b] or [b]speed[/b].",
        ),
    ],
    folder: plans.Folder = Path("runs"),
    data: plans.Data = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Only list the files that the plan needs and, with --data, what was found and all that is wrong.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this part: SCENARIO or SCENARIO/OBJECTIVE, for [b]rotate[/b] a set; may be repeated."
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Number of trials instead of the plan's (3 for [b]rotate[/b]); may be increased later.", min=1
        ),
    ] = None,
    executor: plans.ExecutorOption = plans.ExecutorName.PROCESSES,
    address: plans.Address = None,
    workers: plans.Workers = 0,
    threads: plans.Threads = 1,
    together: plans.Together = 0,
    device: Device = "auto",
    tf32: plans.Tf32 = False,
    rows_only: Annotated[
        bool, typer.Option("--rows-only", help="Write only the rows, without tables, figures and report.")
    ] = False,
    collect_only: Annotated[
        bool,
        typer.Option("--collect", help="Run nothing; write rows, tables, figures and report of the finished runs."),
    ] = False,
    machines: Annotated[
        list[int] | None,
        typer.Option(help="For [b]speed[/b]: number of machines watched at once; may be repeated.", min=1),
    ] = None,
    grid: Annotated[
        Path | None,
        typer.Option(help="For [b]readings[/b]: a grid of readings, a .toml file instead of the built-in one."),
    ] = None,
    profile: rotate.RotatedProfile = "recommended",
    variant: rotate.Variant = rotate.StreamStart.BOTH,
    peers: rotate.Peers = True,
    paper: rotate.Paper = False,
    known_conditions: rotate.KnownConditions = False,
    *,
    json: AsJson = False,
) -> None:
    """Run every method of a plan on every stream, and write one tidy row per stage.

    Every finished job is a file in FOLDER: an interrupted command resumes where
    it stopped. FOLDER/PLAN/rows.csv has all rows with their seeds, settings,
    costs and versions; FOLDER/PLAN/tables and figures have the paper's tables
    and figures, with its values next to ours; FOLDER/PLAN/report.html combines
    them in one interactive page.

    If --data is the data set of a machine, the plan runs on that machine: it
    trains on the recordings that are not for tests, and streams the others. If
    none is for tests, the last operating condition is left out of training.

    ``rotate`` is not a plan: it leaves every operating condition, unit and run
    of every set in --data out of training in turn, and compares the results
    with plain classifiers in FOLDER/rotate.

    ``readings`` is not a plan: it trains and scores readings of what the paper
    leaves open, by the paper's own statements, in FOLDER/readings.

    ``speed`` is not a plan: it compares the speed of the online engines with a
    literal loop, on noise, and writes nothing.
    """
    where, parts = device if collect_only else pick_device(device), only or []
    if plan == "speed":
        from cgsa.cli.speed import speed_command

        speed_command(where, machines or [], json=json)
        return
    if plan == "readings":
        from cgsa.cli.readings import readings_command

        readings_command(
            folder,
            grid,
            executor=executor,
            address=address,
            workers=workers,
            threads=threads,
            together=together,
            device=where,
            tf32=tf32,
            trials=trials,
            only=parts,
            collect_only=collect_only,
            json=json,
        )
        return
    if plan == "rotate":
        rotate.rotate_command(
            folder,
            data,
            parts,
            profile=profile,
            seeds=trials,
            variant=variant,
            peers=peers,
            paper=paper,
            known_conditions=known_conditions,
            workers=workers,
            threads=threads,
            device=where,
            collect_only=collect_only,
            json=json,
        )
        return
    from cgsa.bench.plan import part_filter
    from cgsa.bench.report import write_results
    from cgsa.bench.run import collect_records
    from cgsa.bench.workspace import PlanWorkspace

    chosen = plans.chosen_plan(plan, data, folder, trials)
    workspace = PlanWorkspace(chosen, folder, data, where, threads, tf32, plans.trainings_at_once(where, together))
    if check and not collect_only:
        preflight.check_only(workspace, json=json)
        return
    if collect_only:
        records = collect_records(workspace)
    else:
        preflight.check_before_run(workspace)
        records = plans.run_with_progress_bar(workspace, executor, workers, address, part_filter(chosen, parts))
    tables = [] if rows_only else write_results(workspace, records)
    if json:
        print_json([row for record in records for row in record.rows])
        return
    for table in tables:
        if table.name.startswith("totals"):
            print_table(table.header, table.rows, table.name.replace("-", ", "))
    out.print(f"rows: {workspace.results / 'rows.csv'}", soft_wrap=True)
    if tables:
        out.print(f"report: {workspace.results / 'report.html'}", soft_wrap=True)
