"""The paper's tables from rows, with the paper's own values next to ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cgsa.bench.paper_values import Spread, comparable_paper_values, paper_efficiency
from cgsa.bench.records import WHOLE_STREAM, Row, grouped, number, whole_streams
from cgsa.bench.significance import pairwise_table, significance_table
from cgsa.bench.tables import Table
from cgsa.bench.totals import entry_totals

METRICS = ("accuracy", "ece")
DECIDED = {"accuracy": "windows", "verdict_accuracy": "verdicts", "alarm_accuracy": "alarms"}
"""Accuracies in the order of how long evidence is joined: column -> heading."""
EFFICIENCY = {
    "seconds": ("seconds", 1.0, 2),
    "windows_per_second": ("windows/s", 1.0, 0),
    "peak_megabytes": ("peak memory, MB", 1.0, 0),
    "forward_volume": ("forward, M/batch", 1e6, 3),
    "backward_volume": ("backward, M/batch", 1e6, 3),
}
"""Columns of the efficiency table: name in the rows -> heading, divisor, digits."""


def all_tables(rows: Sequence[Row]) -> list[Table]:
    """Return every table that the rows support, scenario by scenario."""
    scenarios = dict.fromkeys(str(row["scenario"]) for row in rows)
    makers = (
        comparison_table,
        totals_table,
        decisions_table,
        trust_table,
        significance_table,
        pairwise_table,
        efficiency_table,
    )
    return [table for scenario in scenarios for make in makers if (table := make(rows, scenario)).rows]


def comparison_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return accuracy and ECE of every entry by fault and stage: mean ± deviation over trials, the paper's below."""
    mine = [row for row in rows if row["scenario"] == scenario]
    entries = list(_by_entry(mine))
    theirs = comparable_paper_values(rows, scenario)
    body: list[tuple[str, ...]] = []
    for fault, stage in dict.fromkeys((str(row["fault"]), str(row["stage"])) for row in mine):
        here = _by_entry(row for row in mine if (row["fault"], row["stage"]) == (fault, stage))
        for metric in METRICS:
            body.append((fault, stage, metric, *(_spread(here.get(entry, []), metric) for entry in entries)))
            published = [_spread_text(theirs.get((fault, stage, metric, entry))) for entry in entries]
            if any(published):
                body.append(("", "", "paper", *published))
    return Table(f"comparison-{scenario}", ("fault", "stage", "metric", *entries), tuple(body))


def totals_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return the total average of every entry, its rank, and the paper's total average."""
    totals = entry_totals(rows, scenario)
    ranking = sorted(totals, key=lambda total: -total.mean)
    theirs = comparable_paper_values(rows, scenario)
    body = tuple(
        (
            total.entry,
            _spread_text((total.mean, total.deviation)),
            str(ranking.index(total) + 1),
            f"{total.ece:.3f}",
            *(_spread_text(theirs.get((WHOLE_STREAM, WHOLE_STREAM, metric, total.entry))) for metric in METRICS),
        )
        for total in totals
    )
    return Table(f"totals-{scenario}", ("method", "total average", "rank", "ECE", "paper", "paper ECE"), body)


def decisions_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return the results of joining windows over time: accuracy, detection delay, false alarms.

    The last column is the worst trial: the accuracy of its verdicts minus that of the single windows of the frozen
    model of the same training.
    """
    whole = [row for row in whole_streams(rows, scenario) if "verdict_accuracy" in row]
    frozen = {_start(row): row for row in whole if row["method"] == "source"}
    body = []
    for entry, mine in _by_entry(whole).items():
        delays = [number(row, "delay") for row in mine if row["delay"] is not None]
        hours = sum(number(row, "healthy_seconds") for row in mine) / 3600
        body.append(
            (
                entry,
                *(_spread(mine, column) for column in DECIDED),
                f"{np.median(delays):.2f}" if delays else "",
                f"{len(mine) - len(delays)} of {len(mine)}",
                f"{sum(number(row, 'false_alarms') for row in mine)} in {hours:.2f} h",
                f"{np.mean([number(row, 'unknown_share') for row in mine]):.4f}",
                _worst_gain(mine, frozen),
            )
        )
    header = ("method", *DECIDED.values(), "delay, s", "missed", "false alarms", "unknown", "worst trial")
    return Table(f"decisions-{scenario}", header, tuple(body))


def trust_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return how well methods estimate, without labels, the share of windows they diagnose correctly.

    The last column is the mean absolute error of the estimate over faults, stages and trials.
    """
    stages = [row for row in rows if row["scenario"] == scenario and row["stage"] != WHOLE_STREAM]
    body = []
    for entry, mine in _by_entry(row for row in stages if "estimated_accuracy" in row).items():
        found = np.array([number(row, "accuracy") for row in mine])
        estimated = np.array([number(row, "estimated_accuracy") for row in mine])
        figures = (found.mean(), estimated.mean(), np.abs(found - estimated).mean())
        body.append((entry, *(f"{value:.3f}" for value in figures)))
    return Table(f"trust-{scenario}", ("method", "windows right", "estimated", "distance"), tuple(body))


def efficiency_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return the cost of a stream for each entry, with the paper's values (its table V, on an RTX 5090).

    Volumes are the parameters that take part in the passes of a batch. Times are comparable only if one job ran at a
    time.
    """
    body = []
    for entry, mine in _by_entry(whole_streams(rows, scenario)).items():
        published = paper_efficiency().get(entry, {}) if scenario == "gearbox" else {}
        cells = [entry]
        for column, (_, divisor, digits) in EFFICIENCY.items():
            known = [number(row, column) for row in mine if row[column] is not None]
            cells.append(f"{np.mean(known) / divisor:.{digits}f}" if known else "")
            cells.append(published.get(column, ""))
        body.append((*cells, str(mine[0]["needs"])))
    header = [text for heading, _, _ in EFFICIENCY.values() for text in (heading, "paper")]
    return Table(f"efficiency-{scenario}", ("method", *header, "needs"), tuple(body))


def _by_entry(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return grouped(rows, lambda row: str(row["entry"]))


def _start(row: Row) -> tuple[object, ...]:
    """Return what identifies the model that a row started from, and its stream."""
    return tuple(row[name] for name in ("profile", "objective", "trial", "fault"))


def _worst_gain(mine: Sequence[Row], frozen: Mapping[tuple[object, ...], Row]) -> str:
    """Return the smallest gain of a trial over its frozen model, averaged over the faults."""
    gains: dict[object, list[float]] = {}
    for row in mine:
        source = frozen.get(_start(row))
        if source is not None:
            gain = number(row, "verdict_accuracy") - number(source, "accuracy")
            gains.setdefault(row["trial"], []).append(gain)
    return f"{min(float(np.mean(each)) for each in gains.values()):+.4f}" if gains else ""


def _spread_text(spread: Spread | None) -> str:
    """Return a mean with its deviation, as shown in tables; empty if there is none."""
    if spread is None:
        return ""
    mean, deviation = spread
    return f"{mean:.3f}" if deviation is None else f"{mean:.3f} ± {deviation:.3f}"


def _spread(rows: Sequence[Row], column: str) -> str:
    values = np.array([number(row, column) for row in rows])
    return _spread_text((float(values.mean()), float(values.std())))
