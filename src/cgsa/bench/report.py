"""The report of a plan: one page with its tables and figures that a person can explore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from importlib import resources
from pathlib import Path
from typing import cast

import numpy as np

from cgsa.bench.figures import FROZEN, Drawing, line_styles, mean_curves, stream_timeline
from cgsa.bench.published import published_beside
from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.tables import Table
from cgsa.report.page import HtmlPage

SHORT = 24
"""Tables with more rows are folded."""
LONGEST = 400
"""Numbers of a figure that fill more rows stay in its files."""
TOTAL = (WHOLE_STREAM, WHOLE_STREAM)
"""The place of the total average."""

Place = tuple[str, str]
"""A fault and a stage."""
Values = Mapping[tuple[str, Place], float]
"""A number by entry and place."""


def write_report(
    path: Path,
    records: Sequence[RunRecord],
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
    *,
    facts: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> Path:
    """Write the page of :func:`bench_page`; the file is there whole or not at all."""
    return bench_page(records, tables, drawings, facts=facts, commands=commands).write(path)


def bench_page(
    records: Sequence[RunRecord],
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
    *,
    facts: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> HtmlPage:
    """Return a page that needs nothing else; where scripts are off, its tables and figures remain.

    Parameters
    ----------
    records
        What the chart and the maps of accuracy are made of.
    tables, drawings
        What stands beside them, each in the scenario that its name tells.
    facts
        Paragraphs at the top.
    commands
        How to repeat it.
    """
    by_scenario: dict[str, list[RunRecord]] = {}
    for record in records:
        by_scenario.setdefault(record.scenario, []).append(record)
    names = {scenario: f"scenario-{number}" for number, scenario in enumerate(by_scenario, start=1)}
    plans = dict.fromkeys(str(record.whole["plan"]) for record in records)

    page = HtmlPage(f"Plan {', '.join(plans)}".strip(), style=_read("report.css"), script=_read("report.js"))
    links = {name: scenario for scenario, name in names.items()}
    page.navigation({"curves": "along the streams", **links, "again": "do it again"})
    for fact in facts:
        page.text(fact)
    with page.section("curves"):
        page.heading("Accuracy along the streams")
        if records:
            _add_chart(page, by_scenario)
        else:
            page.text("Nothing is done yet.")
    for scenario, name in names.items():
        with page.section(name):
            page.heading(_title(scenario, by_scenario[scenario]))
            _add_maps(page, name, by_scenario[scenario])
            _add_all(page, scenario, list(names), tables, drawings)
    _add_all(page, None, list(names), tables, drawings)
    with page.section("again"):
        page.heading("Do it again")
        for command in commands:
            page.code(command)
    return page


def _read(name: str) -> str:
    return (resources.files("cgsa") / "bench" / name).read_text(encoding="utf-8")


def _title(scenario: str, records: Sequence[RunRecord]) -> str:
    counts = {
        "method": len({record.entry for record in records}),
        "fault": len({record.fault for record in records}),
        "trial": len({record.trial for record in records}),
    }
    words = ", ".join(f"{count} {what}" + ("" if count == 1 else "s") for what, count in counts.items())
    return f"{scenario}: {words}"


def _add_chart(page: HtmlPage, by_scenario: Mapping[str, Sequence[RunRecord]]) -> None:
    page.raw('<div class="chart"></div><noscript><p>Scripts are off: see the figures below.</p></noscript>')
    page.data("chart-data", {scenario: _curves(records) for scenario, records in by_scenario.items()})


def _curves(records: Sequence[RunRecord]) -> dict[str, object]:
    """Return the looks of the entries and, by fault, the course of the stream and a curve an entry."""
    looks = line_styles(records)
    # Black on a dark page would be lost.
    black = {entry: replace(look, colour="currentColor") for entry, look in looks.items() if look.colour == FROZEN}
    faults: dict[str, object] = {}
    for fault in dict.fromkeys(record.fault for record in records):
        stream = [record for record in records if record.fault == fault]
        # The chart draws them one over the other: the strong ones come last.
        upwards = sorted(mean_curves(stream).items(), key=lambda item: looks[item[0]].width)
        curves = {
            entry: {
                "seen": curve.seen,
                "cumulative": curve.cumulative.round(4).tolist(),
                "real-time": curve.realtime.round(4).tolist(),
            }
            for entry, curve in upwards
        }
        faults[fault] = {**asdict(stream_timeline(stream)), "curves": curves}
    return {"line_styles": {entry: asdict(look) for entry, look in (looks | black).items()}, "faults": faults}


def _add_maps(page: HtmlPage, name: str, records: Sequence[RunRecord]) -> None:
    """Add entries by faults and stages in colours: accuracy, ECE, and how far from the paper."""
    accuracy = _means(records, "accuracy")
    gaps = _gaps(records, accuracy)
    panes = {
        "accuracy": _pane(accuracy, "{:.3f}", faintest=min(accuracy.values())),
        "ECE": _pane(_means(records, "ece"), "{:.3f}", more_is_better=False),
    }
    if not np.isnan(list(gaps.values())).all():
        panes["difference to the paper"] = _pane(gaps, "{:+.3f}")
    page.heading("By fault and stage", 3)
    buttons = "".join(
        f'<input type="radio" name="{name}-map" id="{name}-map-{number}"{" checked" if number == 0 else ""}> '
        f'<label for="{name}-map-{number}">{title}</label>'
        for number, title in enumerate(panes)
    )
    tables = "".join(f'<div class="scroll">{table}</div>' for table in panes.values())
    page.raw(f'<div class="choice">{buttons}{tables}</div>')


def _means(records: Sequence[RunRecord], metric: str) -> dict[tuple[str, Place], float]:
    """Return means over the trials by fault and stage, then the means over faults and trials."""
    found: dict[tuple[str, Place], list[float]] = {}
    for record in records:
        for row in record.rows:
            value = cast(float, row[metric])
            found.setdefault((record.entry, (record.fault, str(row["stage"]))), []).append(value)
    for record in records:
        found.setdefault((record.entry, TOTAL), []).append(cast(float, record.whole[metric]))
    return {key: float(np.mean(values)) for key, values in found.items()}


def _gaps(records: Sequence[RunRecord], accuracy: Values) -> Values:
    """Return accuracies less the paper's; NaN where it has none."""
    published = published_beside([row for record in records for row in record.rows], records[0].scenario)
    gaps = {}
    for (entry, (fault, stage)), value in accuracy.items():
        theirs = published.get((fault, stage, "accuracy", entry))
        gaps[entry, (fault, stage)] = value - theirs[0] if theirs else float("nan")
    return gaps


def _pane(values: Values, form: str, *, faintest: float = 0.0, more_is_better: bool = True) -> str:
    """Return a table whose cells are the stronger coloured the farther they are from ``faintest``."""
    farthest = max((abs(value - faintest) for value in values.values() if not np.isnan(value)), default=0.0)

    def cell(value: float) -> str:
        if np.isnan(value):
            return "<td></td>"
        kind = "good" if (value >= faintest) == more_is_better else "bad"
        heat = abs(value - faintest) / farthest if farthest else 0.0
        return f'<td class="{kind}" style="--heat:{heat:.2f}">{form.format(value)}</td>'

    places = list(dict.fromkeys(place for _, place in values))
    head = "".join(f"<th>{escape(_place_name(place))}</th>" for place in places)
    body = ""
    for entry in dict.fromkeys(entry for entry, _ in values):
        cells = "".join(cell(values.get((entry, place), float("nan"))) for place in places)
        body += f"<tr><td>{escape(entry)}</td>{cells}</tr>"
    return f"<table><thead><tr><th>method</th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _place_name(place: Place) -> str:
    fault, stage = place
    return "total" if place == TOTAL else f"{fault.replace('_', ' ')} {'average' if stage == WHOLE_STREAM else stage}"


def _add_all(
    page: HtmlPage, scenario: str | None, scenarios: Sequence[str], tables: Sequence[Table], drawings: Sequence[Drawing]
) -> None:
    """Add the tables and drawings of one scenario, or those that belong to none."""
    for table in tables:
        if _scenario_in(table.name, scenarios) == scenario:
            title = table.name.removesuffix(f"-{scenario}").replace("-", " ")
            page.heading(title.capitalize(), 3)
            _add_table(page, table)
    for drawing in drawings:
        if _scenario_in(drawing.name, scenarios) == scenario:
            page.heading(drawing.title, 3)
            page.figure(drawing.svg, drawing.caption)
            if len(drawing.table.rows) <= LONGEST:
                with page.folded("The numbers drawn"):
                    page.table(drawing.table.header, drawing.table.rows)


def _add_table(page: HtmlPage, table: Table) -> None:
    if len(table.rows) <= SHORT:
        page.table(table.header, table.rows)
        return
    with page.folded(f"{len(table.rows)} rows"):
        page.table(table.header, table.rows)


def _scenario_in(name: str, scenarios: Sequence[str]) -> str | None:
    """Return the scenario in a name such as ``totals-gearbox``; the longest, where one is part of another."""
    return max((each for each in scenarios if f"-{each}-" in f"-{name}-"), key=len, default=None)
