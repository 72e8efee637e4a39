"""``cgsa bench readings``: score readings of what the paper leaves open by the paper's own statements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.cli import plans
from cgsa.cli.console import out, print_json, print_note, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = ("reading", "sum", "CGSA - CAL", "RCG rejects", "chosen")
"""Columns of the table that fit on a screen."""


def readings_command(
    folder: Path,
    grid_file: Path | None,
    *,
    executor: plans.ExecutorName,
    address: str | None,
    workers: int,
    threads: int,
    together: int,
    device: str,
    tf32: bool,
    trials: int | None,
    only: Sequence[str],
    collect_only: bool,
    json: bool,
) -> None:
    """Run what is left of the grid in ``folder``/readings, write its results there, and print the table."""
    from cgsa.bench.plan import part_filter
    from cgsa.bench.readings.grid import ReadingGrid
    from cgsa.bench.readings.report import write_readings
    from cgsa.bench.run import collect_records
    from cgsa.bench.workspace import PlanWorkspace

    grid = ReadingGrid.load(grid_file)
    grid = grid if trials is None else replace(grid, trials=trials)
    place, plan = folder / "readings", grid.plan()
    at_once = plans.trainings_at_once(device, together)
    seeds_at_once = min(at_once, plan.trials)
    workspace = PlanWorkspace(plan, place, None, device, threads, tf32, seeds_at_once, skip_diverged=True)
    if collect_only:
        records = collect_records(workspace)
    else:
        # Groups of the seeds of one reading are too small to fill a GPU.
        groups = max(1, at_once // plan.trials)
        wanted = part_filter(plan, only)
        records = plans.run_with_progress_bar(workspace, executor, workers, address, wanted, groups=groups)
    table = write_readings(grid, records, place, plan.trials)
    for path in sorted((place / "training").glob("*.diverged")):
        print_note(f"{path.stem}: {path.read_text(encoding='utf-8').strip()}; remove {path} to train it again")
    if json:
        print_json([dict(zip(table.header, row, strict=True)) for row in table.rows])
        return
    places = [table.header.index(name) for name in SHOWN]
    rows = [[row[place] for place in places] for row in table.rows]
    print_table(SHOWN, rows, "Readings, with the sum of statements that hold over all seeds")
    out.print(f"table, figure and rows: {place}", soft_wrap=True)
    out.print(f"profile that follows: {place / 'paper.toml'}", soft_wrap=True)
