"""What is published holds together: pages show the tables of the results, and the results keep the paper's rules."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest
from benchmarks.publish import BLOCK, PAGES, RESULTS, filled

DETERMINISTIC = {"source", "tent_full", "cgsa", "lame", "cofa", "sar"}
"""Methods that draw no random number."""
FULL = 6_965_316
"""Parameters of F and G."""
MEAN_BRANCH = 41_473
VOLUMES = {
    "source": (FULL, 0),
    "tent_full": (FULL, FULL),
    "adacontrast": (4 * FULL, FULL),
    "dplot": (5 * FULL, 2 * FULL),
    "surgeon": (3 * FULL, 2 * FULL),
    "oafd": (2 * FULL, FULL),
    "cgsa": (2 * FULL + MEAN_BRANCH, FULL),
}
"""Table V of the paper: forward and backward volume of a batch."""

PLANS = sorted(path.parent for path in RESULTS.glob("*/rows.csv"))


def rows_of(plan: Path) -> list[dict[str, str]]:
    with (plan / "rows.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_pages_show_the_tables_as_they_are(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, "run benchmarks/publish.py"


def test_some_table_is_shown() -> None:
    assert any(BLOCK.search(page.read_text(encoding="utf-8")) for page in PAGES)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_methods_that_draw_nothing_give_one_c1_for_all_faults(plan: Path) -> None:
    """The first stage is healthy, so it is the same windows whatever the fault will be."""
    found: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows_of(plan):
        if row["stage"] == "C1" and row["method"] in DETERMINISTIC:
            found[row["scenario"], row["entry"], row["trial"]].add((row["accuracy"], row["ece"]))
    assert found
    assert [key for key, values in found.items() if len(values) > 1] == []


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_volumes_are_the_papers(plan: Path) -> None:
    """Only on machines whose windows have the paper's size, under its profile, and where no batch went unlearnt."""
    for row in rows_of(plan):
        if row["stage"] != "all" or row["scenario"] not in {"gearbox", "motor"} or row["profile"] != "paper":
            continue
        forward, backward = float(row["forward_volume"]), float(row["backward_volume"])
        batches = int(row["batches"])
        if row["method"] == "cotta":
            # Three passes, and the views of those batches of which the source model was unsure.
            unsure = (forward / FULL - 3) * batches / 32
            assert unsure == pytest.approx(round(unsure), abs=1e-6)
            assert backward == FULL
        elif row["method"] == "tri_training":
            retrained = backward * batches / FULL
            assert retrained == pytest.approx(round(retrained), abs=1e-6)
            assert 0 <= retrained <= 3
            assert forward == pytest.approx(FULL * (9 + 5 * retrained / batches))
        elif row["method"] in VOLUMES:
            assert forward == VOLUMES[row["method"]][0]
            assert backward <= VOLUMES[row["method"]][1]
