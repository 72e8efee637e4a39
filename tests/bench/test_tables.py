from __future__ import annotations

import csv
import io
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

from cgsa.bench.records import WHOLE_STREAM
from cgsa.bench.tables import (
    Table,
    all_tables,
    comparison,
    efficiency,
    paired,
    totals,
    verdicts,
)

FAULTS = ("gear_wear", "teeth_break", "teeth_crack")
ENTRIES = {"SupCon": 0.80, "CGSA": 0.90}
OBJECTIVES = {"SupCon": "supcon", "CGSA": "cal"}


def make_rows(trials: int = 8) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for trial, fault, (entry, level) in product(range(trials), FAULTS, ENTRIES.items()):
        stages = level + 0.02 * rng.standard_normal(3)
        common = {"scenario": "gearbox", "fault": fault, "entry": entry, "trial": trial, "needs": ""}
        common |= {"objective": OBJECTIVES[entry], "watched": 1}
        rows += [
            {**common, "stage": f"C{number}", "accuracy": accuracy, "ece": 0.1}
            for number, accuracy in enumerate(stages, start=1)
        ]
        whole = {"seconds": 2.0, "windows_per_second": 100.0, "peak_megabytes": None}
        whole |= {"forward_volume": 2e6, "backward_volume": 1e6}
        rows.append({**common, "stage": WHOLE_STREAM, "accuracy": stages.mean(), "ece": 0.05, **whole})
    return rows


ROWS = make_rows()


def test_comparison_shows_ours_above_the_papers() -> None:
    table = comparison(ROWS, "gearbox")
    assert table.header == ("fault", "stage", "metric", "SupCon", "CGSA")
    first, below = table.rows[0], table.rows[1]
    mine = [
        row["accuracy"] for row in ROWS if (row["fault"], row["stage"], row["entry"]) == ("gear_wear", "C1", "CGSA")
    ]
    values = np.array(mine, dtype=np.float64)
    assert first == ("gear_wear", "C1", "accuracy", first[3], f"{values.mean():.3f} ± {values.std():.3f}")
    assert below == ("", "", "paper", "0.735 ± 0.069", "0.891 ± 0.082")


def test_totals_rank_by_accuracy() -> None:
    table = totals(ROWS, "gearbox")
    assert [(row[0], row[2]) for row in table.rows] == [("SupCon", "2"), ("CGSA", "1")]
    assert table.rows[1][4] == "0.918 ± 0.037"


def test_costs_are_told_as_the_paper_tells_them() -> None:
    table = efficiency(ROWS, "gearbox")
    assert table.rows[0] == ("SupCon", "2.00", "", "100", "", "", "", "2.000", "", "1.000", "", "")
    assert table.rows[1][1:] == ("2.00", "1.71", "100", "14001", "", "216", "2.000", "13.972", "1.000", "6.965", "")


def test_paired_differences_and_their_p() -> None:
    ((first, second, difference, ahead, p),) = paired(ROWS, "gearbox").rows
    gaps = []
    for trial in range(8):
        means = [
            np.mean(
                [float(str(r["accuracy"])) for r in ROWS if (r["entry"], r["trial"], r["stage"]) == (e, trial, "all")]
            )
            for e in ENTRIES
        ]
        gaps.append(means[0] - means[1])
    assert (first, second, ahead) == ("SupCon", "CGSA", "0 of 8")
    assert difference == f"{np.mean(gaps):+.4f}"
    assert p == f"{stats.wilcoxon(gaps).pvalue:.3f}"


def rows_with_totals(totals_by_entry: dict[str, list[float]]) -> list[dict[str, object]]:
    return [
        {"scenario": "s", "fault": "f", "entry": entry, "trial": trial, "stage": WHOLE_STREAM, "accuracy": value}
        for entry, values in totals_by_entry.items()
        for trial, value in enumerate(values)
    ]


def test_verdicts_are_corrected_for_their_number() -> None:
    trials = np.arange(10) / 1000
    rows = rows_with_totals(
        {
            "CGSA": list(0.8 + trials),
            "worse": list(0.7 + 0 * trials),
            "better": list(0.9 + 0 * trials),
            "alike": list(0.8 + trials[::-1]),
            "shorter": [0.7] * 3,
        }
    )
    table = verdicts(rows, "s")
    found = {row[0]: row[1:] for row in table.rows}
    assert {name: cells[-1] for name, cells in found.items()} == {
        "worse": "wins",
        "better": "loses",
        "alike": "ties",
        "shorter": "ties",
    }
    # The smallest p of ten trials is 2 / 2^10; two of four comparisons have it: 4 times the first, 3 times the second,
    # which Holm lifts to the first.
    assert found["worse"][2:4] == ("0.0020", "0.0078")
    assert found["better"][2:4] == ("0.0020", "0.0078")
    assert found["shorter"][1] == "3 of 3"


def test_equal_entries_do_not_differ() -> None:
    same = [{**row, "accuracy": 0.5} for row in ROWS]
    assert paired(same, "gearbox").rows[0][2:] == ("+0.0000", "0 of 8", "1.000")


def test_every_form_holds_every_cell(tmp_path: Path) -> None:
    table = Table("t", ("a_b", "c"), (("50 %", "1 ± 2"),))
    table.write(tmp_path)
    assert (tmp_path / "t.md").read_text() == "| a_b | c |\n| --- | --- |\n| 50 % | 1 ± 2 |\n"
    assert list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text()))) == [["a_b", "c"], ["50 %", "1 ± 2"]]
    latex = (tmp_path / "t.tex").read_text()
    assert r"a\_b & c \\" in latex
    assert r"50 \% & 1 $\pm$ 2 \\" in latex


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
