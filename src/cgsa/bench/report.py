"""The results of a plan: tables, figures, and a report that shows them on one interactive page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from cgsa.bench.figures import FROZEN_COLOUR, Drawing, all_drawings, line_styles, mean_curves, stream_timeline
from cgsa.bench.paper_values import comparable_paper_values
from cgsa.bench.records import WHOLE_STREAM, RunRecord, grouped, number
from cgsa.bench.result_tables import all_tables
from cgsa.bench.tables import Table
from cgsa.bench.workspace import PlanWorkspace
from cgsa.errors import ConfigError
from cgsa.report.page import HtmlPage, render_page

SHORT = 24
"""Tables with more rows are folded."""
LONGEST = 400
"""Figures with more rows of numbers show them only in their files."""
TOTAL = (WHOLE_STREAM, WHOLE_STREAM)
"""Fault and stage of the total average."""

FaultAndStage = tuple[str, str]
Values = Mapping[tuple[str, FaultAndStage], float]
"""A number by entry, fault and stage."""


def write_results(workspace: PlanWorkspace, records: Sequence[RunRecord]) -> list[Table]:
    """Write tables, figures and report next to the rows, and return the tables."""
    folder, plan = workspace.results, workspace.plan
    if not records:
        raise ConfigError(f"{folder}: no records yet; run the plan first")
    # An earlier call may have written tables or figures that these records do not support.
    for subfolder in ("tables", "figures"):
        shutil.rmtree(folder / subfolder, ignore_errors=True)
    tables = all_tables([row for record in records for row in record.rows])
    for table in tables:
        table.write(folder / "tables")
    drawings = all_drawings(records)
    for drawing in drawings:
        drawing.write(folder / "figures")
    trials, device = len({record.trial for record in records}), records[0].whole_stream["device"]
    facts = [f"{len(plan.entries)} methods, {trials} trials, profile {plan.profile}, computed on {device}."]
    facts += [text for entry in plan.entries if (text := gate_summary(entry.name, records)) is not None]
    commands = [f"cgsa bench {plan.name} {workspace.folder.name}"]
    bench_page(records, tables, drawings, facts=facts, commands=commands).write(folder / "report.html")
    return tables


def gate_summary(entry: str, records: Sequence[RunRecord]) -> str | None:
    """Return in one line what the gate of an entry selected, over all streams; None if it has no gate."""
    mine = [record for record in records if record.entry == entry and record.details.intervals is not None]
    if not mine:
        return None

    def mean(column: str) -> str:
        known = [number(record.whole_stream, column) for record in mine if record.whole_stream[column] is not None]
        return f"{np.mean(known):.3f}" if known else "none"

    return (
        f"Gate of {entry}: {mean('acceptance_rate')} of the windows accepted; pseudo-labels are right in "
        f"{mean('accepted_label_accuracy')} of those and in {mean('rejected_label_accuracy')} of the others."
    )


def bench_page(
    records: Sequence[RunRecord],
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
    *,
    facts: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> HtmlPage:
    """Return a self-contained page; its tables and figures work without scripts.

    The records are the data of the chart and of the accuracy maps. Tables and drawings are shown in the section of the
    scenario that is part of their name, facts at the top, and the commands that reproduce the results at the end.
    """
    by_scenario = grouped(records, lambda record: record.scenario)
    plans = dict.fromkeys(str(record.whole_stream["plan"]) for record in records)

    def results_of(scenario: str | None) -> dict[str, object]:
        """Return the tables and drawings of one scenario, or those that belong to none."""
        return {
            "tables": [
                (table.name.removesuffix(f"-{scenario}").replace("-", " ").capitalize(), table)
                for table in tables
                if _scenario_in(table.name, by_scenario) == scenario
            ],
            "drawings": [each for each in drawings if _scenario_in(each.name, by_scenario) == scenario],
        }

    return render_page(
        "bench.html",
        title=f"Plan {', '.join(plans)}".strip(),
        facts=facts,
        chart={scenario: _chart_data(mine) for scenario, mine in by_scenario.items()},
        scenarios=[
            {
                "id": f"scenario-{place}",
                "name": scenario,
                "title": _title(scenario, mine),
                "maps": _heat_maps(mine),
                **results_of(scenario),
            }
            for place, (scenario, mine) in enumerate(by_scenario.items(), start=1)
        ],
        others=results_of(None),
        commands=commands,
        short=SHORT,
        longest=LONGEST,
    )


def _title(scenario: str, records: Sequence[RunRecord]) -> str:
    counts = {
        "method": len({record.entry for record in records}),
        "fault": len({record.fault for record in records}),
        "trial": len({record.trial for record in records}),
    }
    return f"{scenario}: " + ", ".join(
        f"{count} {name}" + ("" if count == 1 else "s") for name, count in counts.items()
    )


def _chart_data(records: Sequence[RunRecord]) -> dict[str, object]:
    """Return the line styles and, by fault, the timeline of the stream and one curve per entry."""
    styles = line_styles(records)
    faults: dict[str, object] = {}
    for fault, stream in grouped(records, lambda record: record.fault).items():
        # The chart draws the lines in this order: thick ones last, on top.
        by_width = sorted(mean_curves(stream).items(), key=lambda item: styles[item[0]].width)
        curves = {
            entry: {
                "seen": curve.seen,
                "cumulative": curve.cumulative.round(4).tolist(),
                "real-time": curve.realtime.round(4).tolist(),
            }
            for entry, curve in by_width
        }
        faults[fault] = {**asdict(stream_timeline(stream)), "curves": curves}
    # Black would be invisible on a dark page.
    on_page = {
        entry: replace(style, colour="currentColor") if style.colour == FROZEN_COLOUR else style
        for entry, style in styles.items()
    }
    return {"line_styles": {entry: asdict(style) for entry, style in on_page.items()}, "faults": faults}


def _heat_maps(records: Sequence[RunRecord]) -> list[dict[str, object]]:
    """Return coloured tables of entries by fault and stage: accuracy, ECE, and difference to the paper."""
    accuracy = _means(records, "accuracy")
    gaps = _paper_differences(records, accuracy)
    maps = [
        _heat_map("accuracy", accuracy, "{:.3f}".format, neutral=min(accuracy.values())),
        _heat_map("ECE", _means(records, "ece"), "{:.3f}".format, more_is_better=False),
    ]
    if not np.isnan(list(gaps.values())).all():
        maps.append(_heat_map("difference to the paper", gaps, "{:+.3f}".format))
    return maps


def _means(records: Sequence[RunRecord], metric: str) -> Values:
    """Return means over the trials by fault and stage, then the means over faults and trials."""
    found: dict[tuple[str, FaultAndStage], list[float]] = {}
    for record in records:
        for row in record.rows:
            found.setdefault((record.entry, (record.fault, str(row["stage"]))), []).append(number(row, metric))
    for record in records:
        found.setdefault((record.entry, TOTAL), []).append(number(record.whole_stream, metric))
    return {key: float(np.mean(values)) for key, values in found.items()}


def _paper_differences(records: Sequence[RunRecord], accuracy: Values) -> Values:
    """Return our accuracies minus the paper's; NaN if it has none."""
    published = comparable_paper_values([row for record in records for row in record.rows], records[0].scenario)
    unknown = (float("nan"), None)
    return {
        (entry, (fault, stage)): value - published.get((fault, stage, "accuracy", entry), unknown)[0]
        for (entry, (fault, stage)), value in accuracy.items()
    }


def _heat_map(
    title: str, values: Values, text: Callable[[float], str], *, neutral: float = 0.0, more_is_better: bool = True
) -> dict[str, object]:
    """Return a table whose cells have a stronger colour the farther they are from ``neutral``."""
    farthest = max((abs(value - neutral) for value in values.values() if not np.isnan(value)), default=0.0)

    def cell(value: float) -> dict[str, str] | None:
        if np.isnan(value):
            return None
        kind = "good" if (value >= neutral) == more_is_better else "bad"
        heat = abs(value - neutral) / farthest if farthest else 0.0
        return {"kind": kind, "heat": f"{heat:.2f}", "text": text(value)}

    places = list(dict.fromkeys(place for _, place in values))
    entries = dict.fromkeys(entry for entry, _ in values)
    rows = [(entry, [cell(values.get((entry, place), float("nan"))) for place in places]) for entry in entries]
    return {"title": title, "header": list(map(_column_name, places)), "rows": rows}


def _column_name(place: FaultAndStage) -> str:
    fault, stage = place
    return "total" if place == TOTAL else f"{fault.replace('_', ' ')} {'average' if stage == WHOLE_STREAM else stage}"


def _scenario_in(name: str, scenarios: Iterable[str]) -> str | None:
    """Return the scenario in a name such as ``totals-gearbox``; the longest one if several match."""
    return max((each for each in scenarios if f"-{each}-" in f"-{name}-"), key=len, default=None)
