"""All that a plan leaves for people: tables, figures and one page to explore."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from cgsa.bench.figures import all_drawings
from cgsa.bench.records import RunRecord
from cgsa.bench.report import write_report
from cgsa.bench.site import Site
from cgsa.bench.tables import Table, all_tables
from cgsa.errors import ConfigError


def write_results(site: Site, records: Sequence[RunRecord]) -> list[Table]:
    """Write tables, figures and report beside the rows, and return the tables."""
    if not records:
        raise ConfigError(f"{site.own}: no record yet; run the plan first")
    # A table or figure of an earlier call may be one that these records no longer allow.
    for place in (site.own / "tables", site.own / "figures"):
        shutil.rmtree(place, ignore_errors=True)
    tables = all_tables([row for record in records for row in record.rows])
    for table in tables:
        table.write(site.own / "tables")
    drawings = all_drawings(records)
    for drawing in drawings:
        drawing.write(site.own / "figures")
    plan = site.plan
    trials, device = len({record.trial for record in records}), records[0].whole["device"]
    about = f"{len(plan.entries)} methods, {trials} trials, profile {plan.profile}, computed on {device}."
    command = f"cgsa bench {plan.name} {site.folder.name}"
    write_report(site.own / "report.html", records, tables, drawings, facts=[about], commands=[command])
    return tables
