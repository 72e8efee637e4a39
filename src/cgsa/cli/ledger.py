"""``cgsa ledger``: why windows were used for adaptation, or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json, print_note, talk
from cgsa.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cgsa.ledger.files import Ledger
    from cgsa.report.timeline import LedgerTimeline

INTERVALS = 12
"""Rows of the table over time."""


def ledger_command(
    folder: Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger that [b]cgsa watch --ledger[/b] wrote.")],
    where: Annotated[
        str, typer.Option(help="Only these windows, such as [b]\"deviation > 0.05 and verdict == 'gear_wear'\"[/b].")
    ] = "",
    export: Annotated[Path | None, typer.Option(help="Write the windows as one .csv or .parquet file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the windows over time, as .svg or .png.")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Show the verdicts on the windows of a stream, and why they were used for adaptation or not.

    The output has shares over all windows and over time. [b]--where[/b] joins
    comparisons of a column with a number, a 'text', true or false by [b]and[/b];
    an unknown column lists the available ones.
    """
    from cgsa.ledger.files import Ledger
    from cgsa.report.timeline import LedgerTimeline

    if figure is not None and figure.suffix not in {".svg", ".png"}:
        raise ConfigError(f"{figure}: a figure is drawn as .svg or .png")
    found = Ledger(folder)
    about = found.about
    timeline = LedgerTimeline(len(found), about.seconds_per_window, intervals=INTERVALS, classes=about.classes)
    _fill(timeline, found, where)
    if export is not None:
        found.export(export, where)
    if figure is not None:
        _draw(found, where, figure)
    if json:
        print_json(_as_json(found, timeline))
        return
    _print(found, timeline, where)
    for path in filter(None, (export, figure)):
        out.print(f"written: {path}", soft_wrap=True)


def _fill(timeline: LedgerTimeline, found: Ledger, where: str) -> None:
    from cgsa.report.timeline import timeline_columns

    for rows in found.batches(where, timeline_columns(found.columns)):
        timeline.add(rows)


def _draw(found: Ledger, where: str, path: Path) -> None:
    from cgsa.files import replacing
    from cgsa.report.figures import to_svg
    from cgsa.report.ledger import figure_timeline, ledger_figure

    about, chosen = found.about, found.count(where)
    timeline = figure_timeline(len(found), about.seconds_per_window, about.classes, rows=chosen)
    _fill(timeline, found, where)
    title = f"{found.folder.name}: {about.method} on {chosen} windows{where and f' with {where}'}"
    drawn = ledger_figure(timeline, title)
    with replacing(path, DataError) as fresh:
        if path.suffix == ".svg":
            fresh.write_text(to_svg(drawn), encoding="utf-8")
        else:
            drawn.savefig(fresh, format="png", dpi=110)


def _as_json(found: Ledger, timeline: LedgerTimeline) -> dict[str, object]:
    from cgsa.config import as_table

    def interval(place: int, windows: int) -> dict[str, object]:
        begin, end = timeline.borders[place : place + 2].tolist()
        row: dict[str, object] = {"from": begin, "to": end, "windows": windows}
        if not windows:
            return row
        return row | {
            **{name: float(mean[place]) for name, mean in timeline.means.items()},
            "verdicts": {verdict: float(share[place]) for verdict, share in timeline.shares("verdict").items()},
            "reasons": {reason: float(share[place]) for reason, share in timeline.shares("reason").items()},
        }

    return {
        "about": as_table(found.about),
        "columns": found.columns,
        "finished": found.finished,
        "lost": list(found.lost),
        "windows": len(found),
        "chosen": int(timeline.windows.sum()),
        "verdicts": timeline.totals("verdict"),
        "reasons": timeline.totals("reason"),
        "recordings": timeline.totals("source"),
        "over_time": [interval(place, windows) for place, windows in enumerate(timeline.windows.tolist())],
    }


def _print(found: Ledger, timeline: LedgerTimeline, where: str) -> None:
    about, chosen = found.about, int(timeline.windows.sum())
    if not found.finished:
        print_note("the stream was stopped; the ledger ends there")
    for text in found.lost:
        print_note(text)
    out.print(f"{chosen} of {len(found)} windows{where and f' with {where}'}", soft_wrap=True, markup=False)
    if not chosen:
        talk.print(f"[yellow]note:[/] columns: {', '.join(found.columns)}; verdicts: {', '.join(about.classes)}")
        return
    totals = {"verdicts": timeline.totals("verdict"), "reasons": timeline.totals("reason")}
    totals["recordings"] = {Path(source).name: share for source, share in timeline.totals("source").items()}
    for title, shares in totals.items():
        text = ", ".join(f"{label} {share:.1%}" for label, share in shares.items())
        out.print(f"{title}: {text}", soft_wrap=True, markup=False)
    out.print(_table(timeline, f"Why {about.method} adapted, or did not"))


def _table(timeline: LedgerTimeline, title: str) -> Table:
    """Return one row per interval, narrow enough for a terminal of 80 columns."""
    reasons = timeline.shares("reason")
    table = Table(title=title, box=SIMPLE_HEAD, padding=0)
    table.add_column("from s", justify="right")
    table.add_column("mostly", max_width=12, no_wrap=True)
    for name in ("windows", "sure", *reasons):
        table.add_column(name, justify="right", min_width=max(map(len, name.split())))
    verdicts, confidence = timeline.counts("verdict"), timeline.means["confidence"]
    for place, windows in enumerate(timeline.windows.tolist()):
        verdict, figures = "", [""] * (1 + len(reasons))
        if windows:
            verdict = max(verdicts, key=lambda label: int(verdicts[label][place]))
            figures = [f"{confidence[place]:.2f}", *(f"{share[place]:.0%}" for share in reasons.values())]
        table.add_row(f"{timeline.borders[place]:.1f}", escape(verdict), str(windows), *figures)
    return table
