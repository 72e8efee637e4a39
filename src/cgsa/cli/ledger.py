"""``cgsa ledger``: why windows were learnt from, or were not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json, talk
from cgsa.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cgsa.ledger.files import Ledger
    from cgsa.report.timeline import LedgerTimeline

STRETCHES = 12
"""Lines of the table over time."""


def ledger_command(
    folder: Annotated[Path, typer.Argument(help="A ledger that [b]cgsa stream --ledger[/b] wrote.")],
    where: Annotated[
        str,
        typer.Option(help="Only these windows, such as [b]\"deviation > 0.05 and verdict == 'gear_wear'\"[/b]."),
    ] = "",
    export: Annotated[Path | None, typer.Option(help="Write the windows as one .csv or .parquet file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the windows over time, as .svg or .png.")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tell what a stream's windows were taken for, and why they were learnt from or not.

    Shares are told for all windows and over time. [b]--where[/b] joins
    comparisons of a column with a number, a 'text', true or false by [b]and[/b];
    a column that is not there is answered with those that are.
    """
    from cgsa.ledger.files import Ledger
    from cgsa.report.timeline import LedgerTimeline, needed

    if figure is not None and figure.suffix not in {".svg", ".png"}:
        raise ConfigError(f"{figure}: a figure is drawn as .svg or .png")
    found = Ledger(folder)
    chosen = found.count(where)
    course = LedgerTimeline(
        len(found), found.about.seconds_per_window, stretches=STRETCHES, classes=found.about.classes
    )
    for rows in found.batches(where, needed(found.columns)):
        course.add(rows)
    if export is not None:
        found.export(export, where)
    if figure is not None:
        _draw(found, where, chosen, figure)
    if json:
        print_json(_as_json(found, course))
        return
    _print(found, course, where)
    for path in filter(None, (export, figure)):
        out.print(f"written: {path}", soft_wrap=True)


def _draw(found: Ledger, where: str, chosen: int, path: Path) -> None:
    from cgsa.files import replacing
    from cgsa.report.figures import to_svg
    from cgsa.report.ledger import figure_course, ledger_figure
    from cgsa.report.timeline import needed

    about = found.about
    course = figure_course(len(found), about.seconds_per_window, about.classes, rows=chosen)
    for rows in found.batches(where, needed(found.columns)):
        course.add(rows)
    drawn = ledger_figure(
        course, f"{found.folder.name}: {about.method} on {chosen} windows{where and f' with {where}'}"
    )
    with replacing(path, DataError) as fresh:
        if path.suffix == ".svg":
            fresh.write_text(to_svg(drawn), encoding="utf-8")
        else:
            drawn.savefig(fresh, format="png", dpi=110)


def _as_json(found: Ledger, course: LedgerTimeline) -> dict[str, object]:
    from cgsa.config import as_table

    def stretch(place: int, windows: int) -> dict[str, object]:
        begin, end = course.borders[place : place + 2].tolist()
        told: dict[str, object] = {"from": begin, "to": end, "windows": windows}
        if not windows:
            return told
        shares = {name: course.shares(name).items() for name in ("verdict", "reason")}
        return told | {
            **{name: float(mean[place]) for name, mean in course.means.items()},
            "verdicts": {word: float(share[place]) for word, share in shares["verdict"]},
            "reasons": {word: float(share[place]) for word, share in shares["reason"]},
        }

    return {
        "about": as_table(found.about),
        "columns": found.columns,
        "finished": found.finished,
        "windows": len(found),
        "chosen": int(course.windows.sum()),
        "verdicts": course.totals("verdict"),
        "reasons": course.totals("reason"),
        "recordings": course.totals("source"),
        "over_time": [stretch(place, windows) for place, windows in enumerate(course.windows.tolist())],
    }


def _print(found: Ledger, course: LedgerTimeline, where: str) -> None:
    about, chosen = found.about, int(course.windows.sum())
    if not found.finished:
        talk.print("[yellow]note:[/] the stream was stopped; these are the windows up to then")
    out.print(f"{chosen} of {len(found)} windows{where and f' with {where}'}", soft_wrap=True, markup=False)
    if not chosen:
        talk.print(f"[yellow]note:[/] columns: {', '.join(found.columns)}; verdicts: {', '.join(about.classes)}")
        return
    told = {"verdicts": course.totals("verdict"), "reasons": course.totals("reason")}
    told["recordings"] = {Path(source).name: share for source, share in course.totals("source").items()}
    for title, shares in told.items():
        words = ", ".join(f"{word} {share:.1%}" for word, share in shares.items())
        out.print(f"{title}: {words}", soft_wrap=True, markup=False)
    out.print(_table(course, f"Why {about.method} learnt, or did not"))


def _table(course: LedgerTimeline, title: str) -> Table:
    """Return one line a stretch, narrow enough for a terminal of 80 columns."""
    reasons = course.shares("reason")
    table = Table(title=title, box=SIMPLE_HEAD, padding=0)
    table.add_column("from s", justify="right")
    table.add_column("mostly", max_width=12, no_wrap=True)
    for name in ("windows", "sure", *reasons):
        table.add_column(name, justify="right", min_width=max(map(len, name.split())))
    verdicts, confidence = course.counts("verdict"), course.means["confidence"]
    for place, windows in enumerate(course.windows.tolist()):
        verdict, figures = "", [""] * (1 + len(reasons))
        if windows:
            verdict = max(verdicts, key=lambda word: int(verdicts[word][place]))
            figures = [f"{confidence[place]:.2f}", *(f"{share[place]:.0%}" for share in reasons.values())]
        table.add_row(f"{course.borders[place]:.1f}", escape(verdict), str(windows), *figures)
    return table
