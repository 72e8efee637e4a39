"""``cgsa bench``: compare methods by a plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, Device, out, pick_device, print_json, progress_bar


def bench(
    plan: Annotated[str, typer.Argument(help="A plan by name (such as [b]core[/b]) or a .toml file.")],
    folder: Annotated[Path, typer.Argument(help="Where models and rows go; a stopped run goes on from there.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with one subfolder of recordings a scenario; without it the rigs are simulated."),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials instead of the plan's; may grow later.", min=1)] = None,
    workers: Annotated[int, typer.Option(help="Jobs at once; 0 means one a core.", min=0)] = 0,
    threads: Annotated[int, typer.Option(help="Threads a job; the bits of a result depend on it.", min=1)] = 1,
    device: Device = "auto",
    *,
    json: AsJson = False,
) -> None:
    """Let every method of a plan meet every stream, and write one tidy row a stage.

    Every finished job is a file in FOLDER: kill the command at any moment and
    call it again, and it goes on with what is left. FOLDER/rows.csv holds all
    rows with their seeds, settings, costs and versions; FOLDER/tables has the
    paper's tables with its figures beside ours, and paired tests over trials.
    """
    from dataclasses import replace

    from cgsa.bench.plan import Plan
    from cgsa.bench.run import Site, run
    from cgsa.bench.tables import all_tables

    chosen = Plan.load(plan)
    chosen = chosen if trials is None else replace(chosen, trials=trials)
    site = Site(chosen, folder, data, pick_device(device), threads)
    with progress_bar() as bar:
        task = bar.add_task(f"plan {chosen.name}", total=None, note="")
        rows = run(
            site,
            workers=workers or os.cpu_count() or 1,
            done=lambda key, count, total: bar.update(task, completed=count, total=total, note=key),
        )
    tables = all_tables(rows)
    for made in tables:
        made.write(folder / "tables")
    if json:
        print_json(rows)
        return
    for made in tables:
        if made.name.startswith("totals"):
            shown = Table(*made.header, title=made.name.replace("-", ", "))
            for row in made.rows:
                shown.add_row(*row)
            out.print(shown)
    out.print(f"rows: {folder / 'rows.csv'}\ntables: {folder / 'tables'}", soft_wrap=True)
