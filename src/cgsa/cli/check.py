"""``cgsa check``: what is wrong with recordings, and what to fix first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json, print_page, progress_bar

if TYPE_CHECKING:
    from cgsa.check.finding import Finding
    from cgsa.check.run import CheckResult

COLOURS = {"stops training": "red", "warning": "yellow", "note": "cyan"}
SHOWN = 40
"""Findings in the table; a page and the JSON have all of them."""


def check_command(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A data set, a set with a meta.json, a folder of MCC5-THU runs or of simulated ones, or files with "
            "recordings.",
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page with pictures here.")] = None,
    rate: Annotated[float | None, typer.Option(help="Sample rate in Hz, for files that state none.", min=1e-6)] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this check, such as [b]clipping[/b]; may be repeated.")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Look for faults of recordings before a model is trained on them.

    Every finding says what was found, why it matters and what to do; those that
    make a model worthless come first, and give exit status 1. Limits come from the
    other recordings of the set, so that a single file can be checked for little.
    """
    from cgsa.check import CHECKS
    from cgsa.check.run import check_data
    from cgsa.check.sources import recordings_below

    for name in only or ():
        CHECKS[name]  # an unknown one is reported before any recording is read
    recordings = recordings_below(data, sample_rate=rate)
    with progress_bar() as bar:
        task = bar.add_task("reading", total=len(recordings), note="")
        result = check_data(recordings, only, lambda name: bar.update(task, advance=1, note=name))
    if html is not None:
        from cgsa.report.check import check_page

        check_page(result, str(data)).write(html)
    if json:
        print_json(check_values(result))
    else:
        _print(result, html)
    if result.stopping:
        raise typer.Exit(1)


def check_values(result: CheckResult) -> dict[str, object]:
    """Return a result as JSON values."""
    from cgsa.check.finding import SEVERITY_ORDER

    counts = Counter(one.severity for one in result.findings)
    return {
        "recordings": len(result.data.recordings),
        "classes": list(result.data.classes),
        "counts": {severity: counts[severity] for severity in SEVERITY_ORDER},
        "findings": [{**one.values(), "place": one.place} for one in result.findings],
    }


def _print(result: CheckResult, html: Path | None) -> None:
    from cgsa.check.finding import SEVERITY_ORDER

    if result.findings:
        out.print(_table(result.findings[:SHOWN]))
    hidden = len(result.findings) - SHOWN
    if hidden > 0:
        out.print(f"{hidden} more findings; --html FILE or --json shows all of them")
    counts = Counter(one.severity for one in result.findings)
    listed = ", ".join(f"{severity}: {counts[severity]}" for severity in SEVERITY_ORDER if counts[severity])
    out.print(f"{len(result.data.recordings)} recordings; {listed or 'nothing found'}", soft_wrap=True)
    print_page(html)


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(show_lines=True)
    for name in ("severity", "check", "what was found, why it matters, what to do", "place"):
        table.add_column(name, overflow="fold")
    for one in findings:
        table.add_row(f"[{COLOURS[one.severity]}]{one.severity}[/]", one.check, escape(one.sentence), escape(one.place))
    return table
