"""Publish the results of benchmark plans, and regenerate everything that derives from them.

    python -m benchmarks.publish regenerate               # all plans; or name some
    python -m benchmarks.publish add RUNS paper core real # new records from the folder RUNS
    python -m benchmarks.publish rotation RUNS            # the rows of cgsa bench rotate RUNS
    python -m benchmarks.publish measurements RUNS        # what other scripts measured into folders of RUNS

The repository keeps, per plan, an archive of records (``results/records``), the tidy rows (``results/PLAN/rows.csv``)
and the figures that pages show. ``regenerate`` needs no GPU: it unpacks the archives into a build folder, makes every
table (Markdown, CSV, LaTeX), every figure (PNG, SVG) and the HTML report there, and updates the rows, the figures and
the tables on the pages. ``add`` first packs the records of a finished run into the archive.

Of a rotation, the repository keeps the rows of every set (``results/rotate/SET.csv``); of other scripts, one line per
measurement (``results/measurements``).

A page shows a table between two comments, and this script fills in the text between them:

    <!-- table: paper/totals-gearbox -->
    <!-- end -->
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from benchmarks import (
    capacity,
    check_faults,
    edge_export,
    explain_lines,
    false_alarms,
    fleet_simulation,
    fuzz_readers,
    import_formats,
    joined,
    machines,
    poison,
    realtime,
    training_time,
    unknown,
    unknown_scores,
    unknown_start,
)
from benchmarks.readme_tables import approaches_table, headline_table
from benchmarks.result_files import Result, merged, read_folder, read_lines, write_lines
from benchmarks.scenario_tables import SCENARIO_TABLES

from cgsa.bench.plan import Plan
from cgsa.bench.records import WHOLE_STREAM, Row
from cgsa.bench.report import write_results
from cgsa.bench.result_tables import decisions_table, efficiency_table, totals_table, trust_table
from cgsa.bench.rotation.tables import expected_table, matrix_tables, models_table, rotation_matrices, sets_table
from cgsa.bench.run import collect_records
from cgsa.bench.significance import significance_table
from cgsa.bench.tables import Table
from cgsa.bench.workspace import PlanWorkspace
from cgsa.metrics.accuracy import DoubleArray

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"
ARCHIVES = RESULTS / "records"
PLAN_FILES = RESULTS / "plans"
"""Plans that are not built in: the candidates drawn by ``cgsa tune``, and the settings it chose."""
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(HERE.glob("*.md")))
TABLE = re.compile(r"<!-- table: (\S+)/(\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)
FIGURE = re.compile(r"results/([^/\s)]+/figures/[^/\s)]+\.png)\)")
TABLES = {
    "totals": totals_table,
    "decisions": decisions_table,
    "trust": trust_table,
    "verdicts": significance_table,
    "efficiency": efficiency_table,
    "gains": joined.gains_table,
    "overview": joined.overview_table,
}
"""Kinds of tables that pages show: the first word of a table's name."""
TEXT_COLUMNS = {"plan", "scenario", "fault", "entry", "objective", "method", "settings", "needs", "profile", "stage"}
TEXT_COLUMNS |= {"device", "tf32", "cgsa", "torch", "python"}
TEXT_COLUMNS |= {"set", "kind", "left_out", "learner", "condition", "variant"}
"""Columns of the rows that hold text; the others hold numbers."""
NEWER_COLUMNS = {"verdict_accuracy", "estimated_accuracy"}
"""Columns that rows written before decisions existed do not have."""


def archive_of(plan: str) -> Path:
    """Return the path of the archive with the records of a plan."""
    return ARCHIVES / f"{plan}.tar.xz"


def published_plans() -> list[str]:
    """Return the names of all plans that have an archive."""
    return sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz"))


def pack(runs: Path, plan: str) -> None:
    """Pack the records of a plan into its archive; the same records give the same bytes."""
    archive_of(plan).parent.mkdir(exist_ok=True)
    with tarfile.open(archive_of(plan), "w:xz", preset=9) as packed:
        for file in sorted((runs / plan / "records").glob("*.json")):
            entry = tarfile.TarInfo(f"{plan}/records/{file.name}")
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                packed.addfile(entry, content)
    if (runs / f"{plan}.toml").exists():
        PLAN_FILES.mkdir(exist_ok=True)
        shutil.copy(runs / f"{plan}.toml", PLAN_FILES)


def unpack(plan: str, build: Path) -> PlanWorkspace:
    """Unpack the records of a plan into a build folder, in place of any that are there."""
    shutil.rmtree(build / plan, ignore_errors=True)
    with tarfile.open(archive_of(plan)) as packed:
        packed.extractall(build, filter="data")
    file = PLAN_FILES / f"{plan}.toml"
    return PlanWorkspace(Plan.load(file if file.exists() else plan), build)


def regenerate(plan: str, build: Path) -> None:
    """Make all results of a plan from its archive; update the rows and the figures that the repository keeps."""
    site = unpack(plan, build)
    records = collect_records(site)
    # A search has hundreds of candidates; a table of all their pairs would help no reader.
    if not plan.endswith("-tuning"):
        write_results(site, records)
    shutil.rmtree(RESULTS / plan, ignore_errors=True)
    for kept in (f"{plan}/rows.csv", *(name for name in sorted(shown_figures()) if name.startswith(f"{plan}/"))):
        (RESULTS / kept).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build / kept, RESULTS / kept)


def shown_figures() -> set[str]:
    """Return the figures that pages show, as paths below the folder of results."""
    return {name for page in PAGES for name in FIGURE.findall(page.read_text(encoding="utf-8"))}


@cache
def read_rows(plan: str) -> list[Row]:
    """Return the published rows of a plan, typed as the records have them."""
    with (RESULTS / plan / "rows.csv").open(newline="", encoding="utf-8") as file:
        return [
            {name: _typed(name, text) for name, text in row.items() if text or name not in NEWER_COLUMNS}
            for row in csv.DictReader(file)
        ]


def _typed(name: str, text: str) -> object:
    if name in TEXT_COLUMNS:
        return text
    if text in {"True", "False"}:
        return text == "True"
    return None if not text else int(text) if text.lstrip("-").isdigit() else float(text)


def shown_table(plan: str, name: str) -> Table:
    """Return a table that a page shows, computed from the published rows or from the scenario files."""
    if plan == "against-paper":
        return robust_against_paper()
    if plan == ROTATION:
        return rotation_table(name)
    if plan == README:
        return README_TABLES[name](read_rotation())
    if plan == SCENARIOS:
        return SCENARIO_TABLES[name]()
    if plan == MEASUREMENTS:
        return MEASURED_TABLES[name](read_lines(measurement_file(name.partition("-")[0])))
    kind, _, scenario = name.partition("-")
    return TABLES[kind](read_rows(plan), scenario)


README = "readme"
README_TABLES: Mapping[str, Callable[[Sequence[Row]], Table]] = {
    "headline": headline_table,
    "approaches": approaches_table,
}
SCENARIOS = "scenarios"
MEASUREMENTS = "measurements"
MEASURED_TABLES: Mapping[str, Callable[[Sequence[Result]], Table]] = {
    "capacity": capacity.table_of,
    "capacity-machines": capacity.machines_table,
    "capacity-coefficients": capacity.coefficients_table,
    "check_faults": check_faults.table_of,
    "explain_development": explain_lines.table_of,
    "explain_lines": explain_lines.table_of,
    "edge_export": edge_export.table_of,
    "realtime": realtime.table_of,
    "false_alarms": false_alarms.table_of,
    "fleet_simulation": fleet_simulation.table_of,
    "fleet_simulation-costs": fleet_simulation.costs_table,
    "fuzz_readers": fuzz_readers.table_of,
    "import_formats": import_formats.table_of,
    "machines": machines.table_of,
    "poison": poison.table_of,
    "training_time": training_time.table_of,
    "unknown": unknown.table_of,
    "unknown_scores": unknown_scores.table_of,
    "unknown_start": unknown_start.table_of,
}
"""Tables of single scripts, by the folder of their results, and what a further table of the same results shows."""


PARTIAL: Mapping[str, Sequence[str]] = {"edge_export": ("set", "profile"), "fuzz_readers": ("format",)}
"""Fields that tell the results of a script apart, if it can measure some of them alone: the others stay published."""


def measurement_file(name: str) -> Path:
    """Return the path of the measurements of a script."""
    return RESULTS / MEASUREMENTS / f"{name}.jsonl"


def publish_measurements(runs: Path) -> None:
    """Keep the results of every script that has a folder among the runs."""
    for name in sorted({table.partition("-")[0] for table in MEASURED_TABLES}):
        if found := read_folder(runs / name):
            file = measurement_file(name)
            if name in PARTIAL and file.exists():
                found = merged(read_lines(file), found, PARTIAL[name])
            write_lines(file, found)
    draw_simulation()


def draw_simulation() -> None:
    """Draw the figure of the simulated fleet, if it was measured."""
    file = measurement_file("fleet_simulation")
    if file.exists():
        figure = RESULTS / "fleet_simulation" / "figures" / "machines.png"
        figure.parent.mkdir(parents=True, exist_ok=True)
        fleet_simulation.draw(read_lines(file)).savefig(figure, dpi=110)


ROTATION = "rotate"
OWN, FROZEN = "recommended", "recommended, frozen"


@cache
def read_rotation() -> Sequence[Row]:
    """Return the published rows of the rotation of all sets."""
    rows: list[Row] = []
    for path in sorted((RESULTS / ROTATION).glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += [{name: _typed(name, text) for name, text in row.items()} for row in csv.DictReader(file)]
    return rows


def rotation_table(name: str) -> Table:
    """Return a table of the rotation: ``models-VARIANT``, ``sets-VARIANT``, ``expected-VARIANT`` or ``SET-VARIANT``."""
    kind, _, variant = name.rpartition("-")
    matrices = rotation_matrices(read_rotation(), variant)
    if kind == "models":
        return models_table(read_rotation(), variant)
    if kind == "sets":
        return sets_table(matrices, OWN, FROZEN, variant)
    if kind == "expected":
        return expected_table(read_rotation(), OWN, variant)
    [found] = [table for table in matrix_tables(matrices, variant) if table.name == name]
    return found


def publish_rotation(runs: Path) -> None:
    """Copy the rows of every set that has been rotated."""
    (RESULTS / ROTATION).mkdir(exist_ok=True)
    for path in sorted((runs / ROTATION / "rows").glob("*.csv")):
        if len(path.read_text(encoding="utf-8").splitlines()) > 1:
            shutil.copy(path, RESULTS / ROTATION / path.name)


ROBUST_PLANS = {"paper": "robust", "real": "robust-real"}
"""Plan under the profile ``paper`` -> plan that runs the profile ``robust`` on the same streams."""
ACCURACIES = ("accuracy", "verdict_accuracy")


@cache
def robust_against_paper() -> Table:
    """Compare the profile ``robust`` with CGSA under the profile ``paper`` on every data set.

    A cell is the stage-mean accuracy over all faults: the mean over the trials and, in brackets, the worst trial. It is
    empty if the rows have no verdicts.
    """
    body = []
    for paper, robust in ROBUST_PLANS.items():
        columns = [_trial_accuracies(paper, "CGSA", metric) for metric in ACCURACIES]
        columns.append(_trial_accuracies(robust, "Frozen", "accuracy"))
        columns += [_trial_accuracies(robust, "Robust", metric) for metric in ACCURACIES]
        body += [(scenario, *(_mean_and_worst(one.get(scenario)) for one in columns)) for scenario in columns[-1]]
    header = (
        "set",
        "paper: windows",
        "paper: verdicts",
        "robust, frozen: windows",
        "robust: windows",
        "robust: verdicts",
    )
    return Table("sets", header, tuple(body))


def _trial_accuracies(plan: str, entry: str, metric: str) -> dict[str, DoubleArray]:
    """Return, by scenario, the accuracy of every trial, averaged over the faults."""
    found: dict[str, dict[object, list[float]]] = {}
    for row in read_rows(plan):
        if row["entry"] == entry and row["stage"] == WHOLE_STREAM and isinstance(value := row.get(metric), float):
            found.setdefault(str(row["scenario"]), {}).setdefault(row["trial"], []).append(value)
    return {name: np.array([np.mean(values) for values in trials.values()]) for name, trials in found.items()}


def _mean_and_worst(trials: DoubleArray | None) -> str:
    return "" if trials is None else f"{trials.mean():.3f} ({trials.min():.3f})"


def fill_tables(page: str) -> str:
    """Return the text of a page with its tables computed from the published rows."""

    def fill(match: re.Match[str]) -> str:
        plan, name = match.groups()
        return f"<!-- table: {plan}/{name} -->\n{shown_table(plan, name).markdown()}<!-- end -->"

    return TABLE.sub(fill, page)


def fill_pages() -> None:
    """Update the tables on all pages."""
    for page in PAGES:
        page.write_text(fill_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


def update(plans: Sequence[str], build: Path) -> None:
    """Regenerate plans, then the tables on all pages."""
    for plan in plans:
        print(f"{plan}: {build / plan}", flush=True)
        regenerate(plan, build)
    fill_pages()
    robust_against_paper().write(build / "against-paper" / "tables")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    regenerating = commands.add_parser("regenerate", help="make all results of plans from their archives")
    regenerating.add_argument("plans", nargs="*", help="default: all published plans")
    adding = commands.add_parser("add", help="publish the records of finished runs, then regenerate their plans")
    adding.add_argument("runs", type=Path, help="folder of the runs, as given to cgsa bench")
    adding.add_argument("plans", nargs="+")
    rotating = commands.add_parser("rotation", help="publish the rows of a rotation, then update the pages")
    rotating.add_argument("runs", type=Path, help="folder of the runs, as given to cgsa bench rotate")
    measuring = commands.add_parser("measurements", help="publish the results of single scripts, then update the pages")
    measuring.add_argument("runs", type=Path, help=f"folder with some of {', '.join(MEASURED_TABLES)}")
    for command in (regenerating, adding):
        command.add_argument("--build", type=Path, default=ROOT / "runs" / "published", help="default: runs/published")
    options = parser.parse_args()
    if options.command in {"rotation", "measurements"}:
        (publish_rotation if options.command == "rotation" else publish_measurements)(options.runs)
        fill_pages()
        return
    if options.command == "add":
        for plan in options.plans:
            pack(options.runs, plan)
    update(options.plans or published_plans(), options.build)


if __name__ == "__main__":
    main()
