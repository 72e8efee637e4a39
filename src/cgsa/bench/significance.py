"""Paired tests between entries over trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy import stats

from cgsa.bench.records import Row
from cgsa.bench.tables import Table
from cgsa.bench.totals import trial_totals
from cgsa.metrics.accuracy import DoubleArray

SIGNIFICANT = 0.05


def pairwise_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return, for every pair of entries, the mean difference of total averages over trials and Wilcoxon's p.

    Trials are paired: they share data, and source models if the objectives are the same. With fewer than six trials no
    difference can reach p < 0.05.
    """
    by_entry = trial_totals(rows, scenario)
    body = []
    for first, second in combinations(by_entry, 2):
        gaps = _differences(by_entry, first, second)
        if len(gaps):
            body.append((first, second, f"{gaps.mean():+.4f}", _ahead(gaps), f"{_wilcoxon(gaps):.3f}"))
    return Table(f"paired-{scenario}", ("first", "second", "mean difference", "first ahead", "p"), tuple(body))


def significance_table(rows: Sequence[Row], scenario: str, reference: str = "CGSA") -> Table:
    """Return whether the reference entry wins, ties or loses against each other entry.

    The test is Wilcoxon's signed-rank test on the total averages of the trials, two-sided, with Holm's correction for
    the number of comparisons. A difference counts if the corrected p is below 0.05; otherwise it is a tie.
    """
    by_entry = trial_totals(rows, scenario)
    others = [entry for entry in by_entry if entry != reference and reference in by_entry]
    differences = {entry: _differences(by_entry, reference, entry) for entry in others}
    differences = {entry: gaps for entry, gaps in differences.items() if len(gaps)}
    corrected = _holm({entry: _wilcoxon(gaps) for entry, gaps in differences.items()})
    body = []
    for entry, gaps in differences.items():
        p = corrected[entry]
        outcome = "ties" if p >= SIGNIFICANT else "wins" if gaps.mean() > 0 else "loses"
        body.append((entry, f"{gaps.mean():+.4f}", _ahead(gaps), f"{_wilcoxon(gaps):.4f}", f"{p:.4f}", outcome))
    header = ("against", "mean difference", "trials ahead", "p", "p after Holm", reference)
    return Table(f"verdicts-{scenario}", header, tuple(body))


def _differences(by_entry: Mapping[str, Mapping[int, float]], first: str, second: str) -> DoubleArray:
    """Return the differences of two entries in their common trials."""
    shared = sorted(by_entry[first].keys() & by_entry[second].keys())
    return np.array([by_entry[first][trial] - by_entry[second][trial] for trial in shared])


def _ahead(gaps: DoubleArray) -> str:
    return f"{np.sum(gaps > 0)} of {len(gaps)}"


def _wilcoxon(gaps: DoubleArray) -> float:
    return float(stats.wilcoxon(gaps).pvalue) if np.any(gaps != 0) else 1.0


def _holm(p: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values for their number: the smallest counts times n, the next times n - 1, and so on."""
    corrected, largest = {}, 0.0
    for rank, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p) - rank) * value))
        corrected[name] = largest
    return corrected
