from __future__ import annotations

import numpy as np

from cgsa.bench.result_tables import all_tables, comparison_table, efficiency_table, totals_table
from tests.bench.made_rows import ROWS


def test_comparison_shows_ours_above_the_papers() -> None:
    table = comparison_table(ROWS, "gearbox")
    assert table.header == ("fault", "stage", "metric", "SupCon", "CGSA")
    first, below = table.rows[0], table.rows[1]
    mine = [
        row["accuracy"] for row in ROWS if (row["fault"], row["stage"], row["entry"]) == ("gear_wear", "C1", "CGSA")
    ]
    values = np.array(mine, dtype=np.float64)
    assert first == ("gear_wear", "C1", "accuracy", first[3], f"{values.mean():.3f} ± {values.std():.3f}")
    assert below == ("", "", "paper", "0.735 ± 0.069", "0.891 ± 0.082")


def test_totals_rank_by_accuracy() -> None:
    table = totals_table(ROWS, "gearbox")
    assert [(row[0], row[2]) for row in table.rows] == [("SupCon", "2"), ("CGSA", "1")]
    assert table.rows[1][4] == "0.918 ± 0.037"


def test_costs_appear_as_in_the_paper() -> None:
    table = efficiency_table(ROWS, "gearbox")
    assert table.rows[0] == ("SupCon", "2.00", "", "100", "", "", "", "2.000", "", "1.000", "", "")
    assert table.rows[1][1:] == ("2.00", "1.71", "100", "14001", "", "216", "2.000", "13.972", "1.000", "6.965", "")


def test_all_tables_of_a_scenario() -> None:
    names = [table.name for table in all_tables(ROWS)]
    kinds = ("comparison", "totals", "verdicts", "paired", "efficiency")
    assert names == [f"{kind}-gearbox" for kind in kinds]
    lonely = [row for row in ROWS if row["entry"] == "SupCon"]
    assert [table.name for table in all_tables(lonely)] == [
        "comparison-gearbox",
        "totals-gearbox",
        "efficiency-gearbox",
    ]
