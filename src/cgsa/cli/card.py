"""The held-out accuracy of a model, printed for people: shared by ``cgsa train`` and ``cgsa info``."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from cgsa.cli.console import out
from cgsa.config import as_table
from cgsa.nn.bundle import Manifest
from cgsa.report.card_tables import (
    CardTable,
    class_table,
    confusion_table,
    estimate_table,
    false_share_table,
    member_table,
    part_table,
    sentences,
    small_print,
)


def print_card(manifest: Manifest, *, details: bool) -> None:
    """Print the accuracy of a model where it was not trained; ``details`` adds the confusion and the candidates."""
    assessment = manifest.assessment
    print_sentences(sentences(manifest))
    if manifest.healthy_only is not None:
        print_card_table(false_share_table(manifest.healthy_only))
    if assessment is None:
        return
    tables = [estimate_table(assessment), part_table(assessment), class_table(assessment, manifest.classes)]
    if details:
        tables += [confusion_table(assessment, manifest.classes), member_table(assessment)]
    for table in tables:
        if table is not None and table.rows:
            print_card_table(table)
    for line in small_print(assessment, manifest):
        out.print(f"[dim]{escape(line)}[/dim]")


def print_sentences(texts: Iterable[str]) -> None:
    """Print what to read first."""
    for text in texts:
        out.print(f"[b]{escape(text)}[/b]")


def card_values(manifest: Manifest) -> dict[str, object]:
    """Return the same for programs; empty if the bundle does not say."""
    assessment = manifest.assessment
    if manifest.healthy_only is not None:
        return {"advice": sentences(manifest), "false_share": manifest.healthy_only.false_share}
    if assessment is None:
        return {}
    leading = assessment.leading
    return {
        "advice": sentences(manifest),
        "leading": None if leading is None else leading.scope,
        "estimates": {scope: as_table(one) for scope, one in assessment.estimates.items()},
    }


def print_card_table(table: CardTable) -> None:
    """Print a table with its title."""
    out.print(f"\n[b]{escape(table.title)}[/b]")
    out.print(_rich(table))


def _rich(table: CardTable) -> Table:
    shown = Table(padding=(0, 1), box=None)
    for place, name in enumerate(table.header):
        shown.add_column(name, justify="right" if place else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(escape, row))
    return shown
