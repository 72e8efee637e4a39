"""The paper's tables out of rows, with the paper's own figures beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import cast

import numpy as np
from scipy import stats

from cgsa.bench.run import WHOLE_STREAM
from cgsa.bench.summary import Line, summarise, trial_totals
from cgsa.errors import ConfigError
from cgsa.files import replacing

Row = Mapping[str, object]
METRICS = ("accuracy", "ece")


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
    return [make(rows, scenario) for scenario in scenarios for make in (comparison, totals, efficiency, paired)]


def comparison(rows: Sequence[Row], scenario: str) -> Table:
    """Return accuracy and ECE of every entry by fault and stage: mean ± deviation over trials, the paper's below."""
    mine = [row for row in rows if row["scenario"] == scenario]
    entries = list(dict.fromkeys(str(row["entry"]) for row in mine))
    body: list[tuple[str, ...]] = []
    for fault, stage in dict.fromkeys((str(row["fault"]), str(row["stage"])) for row in mine):
        here = [row for row in mine if (row["fault"], row["stage"]) == (fault, stage)]
        for metric in METRICS:
            cells = [_spread([row[metric] for row in here if row["entry"] == entry]) for entry in entries]
            body.append((fault, stage, metric, *cells))
            published = [_published(scenario, fault, stage, metric, entry) for entry in entries]
            if any(published):
                body.append(("", "", "paper", *published))
    return Table(f"comparison-{scenario}", ("fault", "stage", "metric", *entries), tuple(body))


def totals(rows: Sequence[Row], scenario: str) -> Table:
    """Return the total average of every entry, its rank, and the paper's."""
    lines = summarise(rows)[scenario]
    order = sorted(lines, key=lambda line: -line.mean)
    body = tuple(_total_row(line, order.index(line) + 1, scenario) for line in lines)
    return Table(f"totals-{scenario}", ("method", "total average", "rank", "ECE", "paper", "paper ECE"), body)


def efficiency(rows: Sequence[Row], scenario: str) -> Table:
    """Return what every entry costs: volumes a batch in millions of parameters, seconds a stream, windows a second."""
    whole = [row for row in rows if row["scenario"] == scenario and row["stage"] == WHOLE_STREAM]
    body = []
    for entry in dict.fromkeys(str(row["entry"]) for row in whole):
        mine = [row for row in whole if row["entry"] == entry]
        means = [_mean(mine, name) for name in ("seconds", "windows_per_second", "forward_volume", "backward_volume")]
        seconds, speed, forward, backward = means
        body.append(
            (
                entry,
                f"{seconds:.2f}",
                f"{speed:.0f}",
                f"{forward / 1e6:.3f}",
                f"{backward / 1e6:.3f}",
                str(mine[0]["needs"]),
            )
        )
    header = ("method", "seconds", "windows/s", "forward, M/batch", "backward, M/batch", "needs")
    return Table(f"efficiency-{scenario}", header, tuple(body))


def paired(rows: Sequence[Row], scenario: str) -> Table:
    """Return, for every pair of entries, the mean difference of total averages over trials and Wilcoxon's p.

    Trials are paired: they share data, and source models where the objectives
    are the same. With fewer than six trials no difference can reach p < 0.05.
    """
    by_entry = trial_totals(rows, scenario)
    body = []
    names = list(by_entry)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            gaps = np.array([by_entry[first][trial] - by_entry[second][trial] for trial in by_entry[first]])
            p = stats.wilcoxon(gaps).pvalue if np.any(gaps != 0) else 1.0
            body.append((first, second, f"{gaps.mean():+.4f}", f"{np.sum(gaps > 0)} of {len(gaps)}", f"{p:.3f}"))
    return Table(f"paired-{scenario}", ("first", "second", "mean difference", "first ahead", "p"), tuple(body))


@cache
def paper_values() -> dict[tuple[str, str, str, str, str], tuple[float, float | None]]:
    """Return the paper's figures: (scenario, fault, stage, metric, entry) -> mean and deviation.

    Fault and stage ``all`` are the total average; tables III, IV and VI.
    """
    text = (resources.files("cgsa") / "bench" / "paper_values.csv").read_text(encoding="utf-8")
    return {
        (row["scenario"], row["fault"], row["stage"], row["metric"], row["entry"]): (
            float(row["value"]),
            float(row["deviation"]) if row["deviation"] else None,
        )
        for row in csv.DictReader(io.StringIO(text))
    }


def _total_row(line: Line, rank: int, scenario: str) -> tuple[str, ...]:
    published = [_published(scenario, "all", "all", metric, line.entry) for metric in METRICS]
    return (line.entry, f"{line.mean:.3f} ± {line.deviation:.3f}", str(rank), f"{line.ece:.3f}", *published)


def _published(scenario: str, fault: str, stage: str, metric: str, entry: str) -> str:
    found = paper_values().get((scenario, fault, stage, metric, entry))
    if found is None:
        return ""
    value, deviation = found
    return f"{value:.3f}" if deviation is None else f"{value:.3f} ± {deviation:.3f}"


def _spread(values: Sequence[object]) -> str:
    numbers = np.array(values, dtype=np.float64)
    return f"{numbers.mean():.3f} ± {numbers.std():.3f}"


def _mean(rows: Sequence[Row], name: str) -> float:
    return float(np.mean([cast(float, row[name]) for row in rows]))


def _latex(text: str) -> str:
    for sign, written in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("#", r"\#")):
        text = text.replace(sign, written)
    return text
