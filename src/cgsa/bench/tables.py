"""The paper's tables out of rows, with the paper's own figures beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np
from scipy import stats

from cgsa.bench.published import Spread, paper_efficiency, published_beside
from cgsa.bench.records import WHOLE_STREAM, Row
from cgsa.bench.summary import EntryTotal, summarise, trial_totals
from cgsa.errors import ConfigError
from cgsa.files import replacing
from cgsa.metrics.accuracy import DoubleArray

METRICS = ("accuracy", "ece")
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns, to be written in any of three forms."""

    name: str
    """Name of its files."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)

    def latex(self) -> str:
        """Return the table as a LaTeX tabular with rules of booktabs."""
        body = "".join(" & ".join(map(_latex, row)) + r" \\" + "\n" for row in self.rows)
        head = " & ".join(map(_latex, self.header)) + r" \\" + "\n"
        columns = "l" * len(self.header)
        return f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"

    def csv(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()

    def write(self, folder: Path) -> None:
        """Write the table in all its forms."""
        for ending, text in (("md", self.markdown()), ("tex", self.latex()), ("csv", self.csv())):
            with replacing(folder / f"{self.name}.{ending}", ConfigError) as fresh:
                fresh.write_text(text, encoding="utf-8")


def all_tables(rows: Sequence[Row]) -> list[Table]:
    """Return every table that rows allow, scenario by scenario."""
    scenarios = dict.fromkeys(str(row["scenario"]) for row in rows)
    makers = (comparison, totals, decisions, trust, verdicts, paired, efficiency)
    return [table for scenario in scenarios for make in makers if (table := make(rows, scenario)).rows]


def comparison(rows: Sequence[Row], scenario: str) -> Table:
    """Return accuracy and ECE of every entry by fault and stage: mean ± deviation over trials, the paper's below."""
    mine = [row for row in rows if row["scenario"] == scenario]
    entries = list(dict.fromkeys(str(row["entry"]) for row in mine))
    theirs = published_beside(rows, scenario)
    body: list[tuple[str, ...]] = []
    for fault, stage in dict.fromkeys((str(row["fault"]), str(row["stage"])) for row in mine):
        here = [row for row in mine if (row["fault"], row["stage"]) == (fault, stage)]
        for metric in METRICS:
            cells = [_spread([row[metric] for row in here if row["entry"] == entry]) for entry in entries]
            body.append((fault, stage, metric, *cells))
            published = [_spread_text(theirs.get((fault, stage, metric, entry))) for entry in entries]
            if any(published):
                body.append(("", "", "paper", *published))
    return Table(f"comparison-{scenario}", ("fault", "stage", "metric", *entries), tuple(body))


def totals(rows: Sequence[Row], scenario: str) -> Table:
    """Return the total average of every entry, its rank, and the paper's."""
    lines = summarise(rows)[scenario]
    order = sorted(lines, key=lambda line: -line.mean)
    theirs = published_beside(rows, scenario)
    body = tuple(
        _total_row(
            line,
            order.index(line) + 1,
            [_spread_text(theirs.get((WHOLE_STREAM, WHOLE_STREAM, metric, line.entry))) for metric in METRICS],
        )
        for line in lines
    )
    return Table(f"totals-{scenario}", ("method", "total average", "rank", "ECE", "paper", "paper ECE"), body)


def decisions(rows: Sequence[Row], scenario: str) -> Table:
    """Return what joining windows over time is worth: accuracy, delay to detection, false alarms.

    The last column is the worst trial: the accuracy of its verdicts less that of
    the single windows of the frozen model of the same training.
    """
    whole = [row for row in rows if row["scenario"] == scenario and row["stage"] == WHOLE_STREAM]
    whole = [row for row in whole if "verdict_accuracy" in row]
    frozen = {_start(row): row for row in whole if row["method"] == "source"}
    body = []
    for entry in dict.fromkeys(str(row["entry"]) for row in whole):
        mine = [row for row in whole if row["entry"] == entry]
        delays = [cast(float, row["delay"]) for row in mine if row["delay"] is not None]
        hours = sum(cast(float, row["healthy_seconds"]) for row in mine) / 3600
        body.append(
            (
                entry,
                *(_spread([row[name] for row in mine]) for name in DECIDED),
                f"{np.median(delays):.2f}" if delays else "",
                f"{len(mine) - len(delays)} of {len(mine)}",
                f"{sum(cast(int, row['false_alarms']) for row in mine)} in {hours:.2f} h",
                f"{np.mean([cast(float, row['unknown_share']) for row in mine]):.4f}",
                _worst(mine, frozen),
            )
        )
    header = ("method", *DECIDED.values(), "delay, s", "missed", "false alarms", "unknown", "worst trial")
    return Table(f"decisions-{scenario}", header, tuple(body))


def trust(rows: Sequence[Row], scenario: str) -> Table:
    """Return how well methods knew, without labels, how many windows they got right.

    The last column is the mean distance of the estimate from the truth over
    faults, stages and trials.
    """
    stages = [row for row in rows if row["scenario"] == scenario and row["stage"] != WHOLE_STREAM]
    stages = [row for row in stages if "estimated_accuracy" in row]
    body = []
    for entry in dict.fromkeys(str(row["entry"]) for row in stages):
        mine = [row for row in stages if row["entry"] == entry]
        found, estimated = (
            np.array([cast(float, row[name]) for row in mine]) for name in ("accuracy", "estimated_accuracy")
        )
        apart = np.abs(found - estimated).mean()
        body.append((entry, f"{found.mean():.3f}", f"{estimated.mean():.3f}", f"{apart:.3f}"))
    return Table(f"trust-{scenario}", ("method", "windows right", "estimated", "distance"), tuple(body))


DECIDED = {"accuracy": "windows", "verdict_accuracy": "verdicts", "alarm_accuracy": "alarms"}
"""Accuracies by how long evidence was joined."""


def _start(row: Row) -> tuple[object, ...]:
    """Return which model a row started from, and which stream it met."""
    return tuple(row[name] for name in ("profile", "objective", "trial", "fault"))


def _worst(mine: Sequence[Row], frozen: Mapping[tuple[object, ...], Row]) -> str:
    """Return the smallest gain of a trial over its frozen model, faults averaged."""
    gains: dict[object, list[float]] = {}
    for row in mine:
        source = frozen.get(_start(row))
        if source is not None:
            gain = cast(float, row["verdict_accuracy"]) - cast(float, source["accuracy"])
            gains.setdefault(row["trial"], []).append(gain)
    return f"{min(float(np.mean(each)) for each in gains.values()):+.4f}" if gains else ""


EFFICIENCY = {
    "seconds": ("seconds", 1.0, 2),
    "windows_per_second": ("windows/s", 1.0, 0),
    "peak_megabytes": ("peak memory, MB", 1.0, 0),
    "forward_volume": ("forward, M/batch", 1e6, 3),
    "backward_volume": ("backward, M/batch", 1e6, 3),
}
"""Columns of the efficiency table: name in the rows -> heading, divisor, digits."""


def efficiency(rows: Sequence[Row], scenario: str) -> Table:
    """Return what a stream costs each entry, beside the paper's figures (its table V, on an RTX 5090).

    Volumes are parameters that take part in the passes of a batch. Times mean
    something only where one job ran at a time.
    """
    whole = [row for row in rows if row["scenario"] == scenario and row["stage"] == WHOLE_STREAM]
    body = []
    for entry in dict.fromkeys(str(row["entry"]) for row in whole):
        mine = [row for row in whole if row["entry"] == entry]
        published = paper_efficiency().get(entry, {}) if scenario == "gearbox" else {}
        cells = [entry]
        for name, (_, divisor, digits) in EFFICIENCY.items():
            known = [cast(float, row[name]) for row in mine if row[name] is not None]
            cells.append(f"{np.mean(known) / divisor:.{digits}f}" if known else "")
            cells.append(published.get(name, ""))
        body.append((*cells, str(mine[0]["needs"])))
    header = [text for heading, _, _ in EFFICIENCY.values() for text in (heading, "paper")]
    return Table(f"efficiency-{scenario}", ("method", *header, "needs"), tuple(body))


def paired(rows: Sequence[Row], scenario: str) -> Table:
    """Return, for every pair of entries, the mean difference of total averages over trials and Wilcoxon's p.

    Trials are paired: they share data, and source models where the objectives
    are the same. With fewer than six trials no difference can reach p < 0.05.
    """
    by_entry = trial_totals(rows, scenario)
    body = []
    for first, second in combinations(by_entry, 2):
        gaps = _gaps(by_entry, first, second)
        if len(gaps):
            body.append((first, second, f"{gaps.mean():+.4f}", _ahead(gaps), f"{_wilcoxon(gaps):.3f}"))
    return Table(f"paired-{scenario}", ("first", "second", "mean difference", "first ahead", "p"), tuple(body))


def verdicts(rows: Sequence[Row], scenario: str, reference: str = "CGSA") -> Table:
    """Return where one entry wins, ties or loses against each other one, by a paired test over trials.

    The test is Wilcoxon's signed-rank test on the total averages of the trials,
    two-sided; its p is corrected for the number of comparisons after Holm. A
    difference counts where the corrected p is below 0.05; all else is a tie.
    """
    by_entry = trial_totals(rows, scenario)
    others = [entry for entry in by_entry if entry != reference and reference in by_entry]
    gaps = {entry: _gaps(by_entry, reference, entry) for entry in others}
    gaps = {entry: found for entry, found in gaps.items() if len(found)}
    corrected = _holm({entry: _wilcoxon(found) for entry, found in gaps.items()})
    body = []
    for entry, found in gaps.items():
        p = corrected[entry]
        verdict = "ties" if p >= SIGNIFICANT else "wins" if found.mean() > 0 else "loses"
        body.append((entry, f"{found.mean():+.4f}", _ahead(found), f"{_wilcoxon(found):.4f}", f"{p:.4f}", verdict))
    header = ("against", "mean difference", "trials ahead", "p", "p after Holm", reference)
    return Table(f"verdicts-{scenario}", header, tuple(body))


def _total_row(line: EntryTotal, rank: int, published: Sequence[str]) -> tuple[str, ...]:
    return (line.entry, f"{line.mean:.3f} ± {line.deviation:.3f}", str(rank), f"{line.ece:.3f}", *published)


def _spread_text(found: Spread | None) -> str:
    """Return a mean with its deviation as they stand in tables; nothing where there is none."""
    if found is None:
        return ""
    value, deviation = found
    return f"{value:.3f}" if deviation is None else f"{value:.3f} ± {deviation:.3f}"


def _spread(values: Sequence[object]) -> str:
    numbers = np.array(values, dtype=np.float64)
    return _spread_text((float(numbers.mean()), float(numbers.std())))


def _gaps(by_entry: Mapping[str, Mapping[int, float]], first: str, second: str) -> DoubleArray:
    """Return the differences of two entries in the trials that both have done."""
    shared = sorted(by_entry[first].keys() & by_entry[second].keys())
    return np.array([by_entry[first][trial] - by_entry[second][trial] for trial in shared])


def _ahead(gaps: DoubleArray) -> str:
    return f"{np.sum(gaps > 0)} of {len(gaps)}"


def _wilcoxon(gaps: DoubleArray) -> float:
    return float(stats.wilcoxon(gaps).pvalue) if np.any(gaps != 0) else 1.0


def _holm(p: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values for their number: the smallest is held against all, the next against one fewer, and so on."""
    corrected, largest = {}, 0.0
    for place, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p) - place) * value))
        corrected[name] = largest
    return corrected


def _latex(text: str) -> str:
    for sign, written in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("#", r"\#")):
        text = text.replace(sign, written)
    return text
