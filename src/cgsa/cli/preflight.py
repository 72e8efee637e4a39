"""The files that scenarios and plans need, and the check of the recordings before a plan runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from cgsa.cli.console import out, print_json, print_note
from cgsa.errors import DataError

if TYPE_CHECKING:
    from cgsa.bench.preflight import Preflight
    from cgsa.bench.workspace import PlanWorkspace
    from cgsa.data.needed_files import NeededFile


def check_before_run(workspace: PlanWorkspace) -> None:
    """Print in what the recordings differ from the plan; fail with everything that stops it.

    A plan without recordings simulates its machines, and needs none.
    """
    from cgsa.bench.preflight import check_recordings

    if workspace.data is not None:
        _print_findings(check_recordings(workspace))


def check_only(workspace: PlanWorkspace, *, json: bool) -> None:
    """Print the files that a plan needs and, if there is a folder to search, what was found and all that is wrong."""
    from cgsa.bench.preflight import Preflight, check_recordings, plan_files

    plan, data = workspace.plan, workspace.data
    result = Preflight(tuple(plan_files(plan))) if data is None else check_recordings(workspace)
    if json:
        files = files_values(result.files)
        values: dict[str, object] = {"plan": plan.name, "data": None if data is None else str(data), "files": files}
        if data is not None:
            for file, paths in zip(files, result.found, strict=True):
                file["found"] = list(paths)
            values |= {"complete": not result.problems, "problems": result.problems, "notes": result.notes}
        print_json(values)
        if result.problems:
            raise typer.Exit(1)
        return
    print_files(result.files, None if data is None else result.found)
    _print_findings(result)
    if data is None:
        out.print(f"plan {plan.name} simulates its machines; with --data FOLDER, it needs these files", soft_wrap=True)
    else:
        out.print(f"{data}: complete for plan {plan.name}", soft_wrap=True)


def print_files(files: Sequence[NeededFile], found: Sequence[Sequence[str]] | None = None) -> None:
    """Print one line per needed file with its uses, and where it was found if a folder was searched."""
    width = max(len(file.name) for file in files)
    places = [""] * len(files) if found is None else [", ".join(paths) or "missing or invalid" for paths in found]
    for file, place in zip(files, places, strict=True):
        line = f"{file.name:<{width}}  {file.scenario}: {' '.join(file.uses)}"
        out.print(escape(f"{line}  {place}".rstrip()), soft_wrap=True)


def files_values(files: Sequence[NeededFile]) -> list[dict[str, object]]:
    """Return needed files as JSON values."""
    return [
        {"scenario": one.scenario, "file": one.name, "state": one.state, "run": one.run, "uses": list(one.uses)}
        for one in files
    ]


def _print_findings(result: Preflight) -> None:
    for note in result.notes:
        print_note(note)
    if result.problems:
        raise DataError("\n".join(result.problems))
