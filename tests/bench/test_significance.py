from __future__ import annotations

import numpy as np
from scipy import stats

from cgsa.bench.records import WHOLE_STREAM
from cgsa.bench.significance import pairwise_table, significance_table
from tests.bench.made_rows import ENTRIES, ROWS


def test_paired_differences_and_their_p() -> None:
    ((first, second, difference, ahead, p),) = pairwise_table(ROWS, "gearbox").rows
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


def test_p_values_are_corrected_for_their_number() -> None:
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
    table = significance_table(rows, "s")
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
    assert pairwise_table(same, "gearbox").rows[0][2:] == ("+0.0000", "0 of 8", "1.000")
