"""``cgsa bench``: compare methods by a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, Device, out, pick_device, print_json
from cgsa.cli.plans import (
    Address,
    Data,
    EngineName,
    EngineOption,
    Folder,
    Tf32,
    Threads,
    Together,
    Workers,
    make_engine,
    run_plan,
    together_on,
)


def bench_command(
    plan: Annotated[str, typer.Argument(help="A plan by name (such as [b]core[/b]), a .toml file, or [b]speed[/b].")],
    folder: Folder = Path("runs"),
    data: Data = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what the recordings in --data lack, and do nothing.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Do only this part now: SCENARIO or SCENARIO/OBJECTIVE; may be repeated."),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials instead of the plan's; may grow later.", min=1)] = None,
    engine: EngineOption = EngineName.PROCESSES,
    address: Address = None,
    workers: Workers = 0,
    threads: Threads = 1,
    together: Together = 0,
    device: Device = "auto",
    tf32: Tf32 = False,
    rows_only: Annotated[
        bool, typer.Option("--rows-only", help="Write rows alone; tables, figures and report can wait.")
    ] = False,
    collect_only: Annotated[
        bool, typer.Option("--collect", help="Do nothing new: rows, tables, figures and report of what is there.")
    ] = False,
    machines: Annotated[
        list[int] | None, typer.Option(help="For [b]speed[/b]: watch so many machines at once; may be repeated.", min=1)
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Let every method of a plan meet every stream, and write one tidy row a stage.

    Every finished job is a file in FOLDER: kill the command at any moment and
    call it again, and it goes on with what is left. FOLDER/PLAN/rows.csv holds
    all rows with their seeds, settings, costs and versions; FOLDER/PLAN/tables
    and figures have the paper's tables and figures with its values beside ours,
    and FOLDER/PLAN/report.html has all of it to explore.

    ``speed`` is no plan: it times the engines of the online stage beside a
    literal loop, on noise, and writes nothing.
    """
    if plan == "speed":
        from cgsa.cli.speed import speed_command

        speed_command(pick_device(device), machines or [], json=json)
        return
    from dataclasses import replace

    from cgsa.bench.plan import Plan, chooser
    from cgsa.bench.preflight import require_data
    from cgsa.bench.results import write_results
    from cgsa.bench.run import collect
    from cgsa.bench.site import Site

    chosen = Plan.load(plan)
    chosen = chosen if trials is None else replace(chosen, trials=trials)
    where = device if collect_only else pick_device(device)
    site = Site(chosen, folder, data, where, threads, tf32, together_on(where, together))
    if collect_only:
        records = collect(site)
    else:
        require_data(site, asked=check)
        if check:
            out.print(f"{data}: all that plan {chosen.name} needs is there", soft_wrap=True)
            return
        records = run_plan(site, make_engine(engine, site, workers, address), chooser(chosen, only or []))
    tables = [] if rows_only else write_results(site, records)
    if json:
        print_json([row for record in records for row in record.rows])
        return
    for made in tables:
        if made.name.startswith("totals"):
            shown = Table(*made.header, title=made.name.replace("-", ", "))
            for row in made.rows:
                shown.add_row(*row)
            out.print(shown)
    out.print(f"rows: {site.own / 'rows.csv'}", soft_wrap=True)
    if tables:
        out.print(f"report: {site.own / 'report.html'}", soft_wrap=True)
