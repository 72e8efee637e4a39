"""Put what plans left in a folder into this one: records, rows, tables and figures, and the tables that pages show.

    python benchmarks/publish.py runs paper core real

A page shows a table between two comments, which this script fills:

    <!-- table: paper/totals-gearbox -->
    <!-- end -->

Records go into an archive a plan. Unpacked into a folder, they make everything else again without a GPU:

    python -m tarfile -e benchmarks/results/records/paper.tar.xz runs
    cgsa bench paper runs --collect
"""

from __future__ import annotations

import argparse
import re
import shutil
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGES = (HERE.parent / "README.md", *HERE.glob("*.md"))
KEPT = ("rows.csv", "tables/*", "figures/*.svg", "figures/*.png")
"""What is published of a plan beside its records."""
BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)


def publish(plan: Path) -> None:
    """Copy the results of one plan, in place of those that were there."""
    target = RESULTS / plan.name
    shutil.rmtree(target, ignore_errors=True)
    for pattern in KEPT:
        for file in sorted(plan.glob(pattern)):
            (target / file.relative_to(plan)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / file.relative_to(plan))
    pack(plan)


def pack(plan: Path) -> None:
    """Put the records of a plan into its archive; the same records give the same bytes."""
    archive = RESULTS / "records" / f"{plan.name}.tar.xz"
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for file in sorted(plan.glob("records/*.json")):
            about = tarfile.TarInfo(f"{plan.name}/records/{file.name}")
            about.size = file.stat().st_size
            with file.open("rb") as content:
                packed.addfile(about, content)


def filled(text: str) -> str:
    """Return a page with its tables as they are in the results."""

    def table(match: re.Match[str]) -> str:
        plan, name = match[1].split("/")
        rows = (RESULTS / plan / "tables" / f"{name}.md").read_text(encoding="utf-8")
        return f"<!-- table: {match[1]} -->\n{rows}<!-- end -->"

    return BLOCK.sub(table, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("plans", nargs="+")
    options = parser.parse_args()
    for name in options.plans:
        publish(options.runs / name)
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
