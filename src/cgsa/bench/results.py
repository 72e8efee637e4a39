"""The results of a plan: tables, figures and one report page."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from cgsa.bench.figures import all_drawings
from cgsa.bench.records import RunRecord
from cgsa.bench.report import bench_page
from cgsa.bench.result_tables import all_tables
from cgsa.bench.tables import Table
from cgsa.bench.workspace import PlanWorkspace
from cgsa.errors import ConfigError


def write_results(workspace: PlanWorkspace, records: Sequence[RunRecord]) -> list[Table]:
    """Write tables, figures and report next to the rows, and return the tables."""
    folder, plan = workspace.results, workspace.plan
    if not records:
        raise ConfigError(f"{folder}: no records yet; run the plan first")
    # An earlier call may have written tables or figures that these records do not support.
    for subfolder in ("tables", "figures"):
        shutil.rmtree(folder / subfolder, ignore_errors=True)
    tables = all_tables([row for record in records for row in record.rows])
    for table in tables:
        table.write(folder / "tables")
    drawings = all_drawings(records)
    for drawing in drawings:
        drawing.write(folder / "figures")
    trials, device = len({record.trial for record in records}), records[0].whole_stream["device"]
    facts = [f"{len(plan.entries)} methods, {trials} trials, profile {plan.profile}, computed on {device}."]
    commands = [f"cgsa bench {plan.name} {workspace.folder.name}"]
    bench_page(records, tables, drawings, facts=facts, commands=commands).write(folder / "report.html")
    return tables
