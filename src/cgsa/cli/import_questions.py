"""The questions of ``cgsa import``, where a person sits at the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from cgsa.cli.console import talk
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.data.importing.files import FoundFiles
    from cgsa.data.importing.plan import ImportPlan
    from cgsa.data.importing.suggest import Suggestion

SHOWN_NAMES = 4


def can_ask() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class ImportQuestions:
    """Asks at the terminal."""

    def ask_pattern(self, found: FoundFiles, suggested: Suggestion | None) -> str:
        """Return the pattern of the names, and show some of them."""
        talk.print(f"{len(found.files)} files, such as", markup=False)
        for name in found.relative[:SHOWN_NAMES]:
            talk.print(f"  {name}", markup=False)
        talk.print("What do the names say? {class}, {unit}, {run} and conditions such as {speed}", markup=False)
        for note in suggested.notes if suggested is not None else ():
            talk.print(note, markup=False)
        return str(typer.prompt("pattern", default=suggested.pattern if suggested is not None else None, err=True))

    def ask_healthy(self, classes: list[str]) -> str:
        """Return the healthy class."""
        talk.print(f"classes: {', '.join(classes)}", markup=False)
        while (answer := str(typer.prompt("which of them is the healthy one", err=True))) not in classes:
            talk.print(f"no class {answer!r}", markup=False)
        return answer

    def ask_rate(self, path: Path) -> float:
        """Return a sample rate."""
        rate = float(typer.prompt(f"{path.name} states no sample rate; Hz", type=float, err=True))
        if not rate > 0:
            raise ConfigError(f"a sample rate of {rate:g} Hz; expected more than 0")
        return rate

    def ask_unit(self, path: Path, channels: list[str]) -> str | None:
        """Return one unit for all channels without one."""
        text = f"{path.name} states no unit of {', '.join(channels)}; unit (blank: as recorded)"
        return str(typer.prompt(text, default="", show_default=False, err=True)).strip() or None

    def confirm_plan(self, plan: ImportPlan, machine: Path) -> bool:
        """Show the classes and conditions, and return whether to go on."""
        counts = Counter((_levels(one.conditions), one.label) for one in plan.recordings)
        table = Table("files at", *plan.classes)
        for levels in dict.fromkeys(levels for levels, _ in sorted(counts)):
            table.add_row(levels, *(str(counts[levels, label] or "-") for label in plan.classes))
        talk.print(table)
        text = f"read {len(plan.recordings)} recordings and write them to {machine}"
        return typer.confirm(text, default=True, err=True)


def _levels(conditions: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in conditions.items()) or "any condition"
