"""``cgsa serve --check``: what is wrong with a configuration."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape

from cgsa.cli.console import out, print_json

COLOURS = {"problem": "red", "note": "yellow"}


def show_check(path: Path, *, as_json: bool) -> None:
    """Print everything that is wrong; end with status 1 if the service would not work."""
    from cgsa.service.configuration_check import check_configuration

    found = check_configuration(path)
    problems = sum(one.severity == "problem" for one in found)
    if as_json:
        print_json({"configuration": str(path), "problems": problems, "findings": [asdict(one) for one in found]})
    else:
        for one in found:
            colour = COLOURS[one.severity]
            out.print(f"[{colour}]{one.severity}:[/] {escape(one.where)}: {escape(one.text)}", soft_wrap=True)
        out.print(f"{path}: {problems or 'no'} problem{'' if problems == 1 else 's'}", soft_wrap=True, markup=False)
    if problems:
        raise typer.Exit(1)
