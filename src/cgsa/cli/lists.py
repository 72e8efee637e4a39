"""``cgsa methods`` and ``cgsa scenarios``: the available choices."""

from __future__ import annotations

from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json


def methods_command(*, json: AsJson = False) -> None:
    """List the training objectives and the online methods."""
    from cgsa.offline import OBJECTIVES
    from cgsa.online import METHODS

    found = [("offline", name, OBJECTIVES[name].summary, sorted(OBJECTIVES[name].needs)) for name in OBJECTIVES]
    found += [("online", name, METHODS[name].summary, sorted(METHODS[name].needs)) for name in METHODS]
    if json:
        print_json([dict(zip(("stage", "name", "summary", "needs"), row, strict=True)) for row in found])
        return
    table = Table("stage", "name", "summary", "needs")
    for stage, name, summary, needs in found:
        table.add_row(stage, f"[b]{name}[/b]", summary, ", ".join(needs))
    out.print(table)


def scenarios_command(*, json: AsJson = False) -> None:
    """List the built-in scenarios: the training data of a model and the stream it then runs on.

    The files are plain TOML: copy one, edit it, and pass its path instead of a
    name.
    """
    from cgsa.config import as_table
    from cgsa.data.scenario import Scenario, builtin_scenarios

    found = {name: (Scenario.load(name), path) for name, path in builtin_scenarios().items()}
    if json:
        print_json([{**as_table(scenario), "file": str(path)} for scenario, path in found.values()])
        return
    table = Table("scenario", "title", "rig", "classes")
    for name, (scenario, _) in found.items():
        table.add_row(f"[b]{name}[/b]", scenario.title, scenario.machine or "none", ", ".join(scenario.classes))
    out.print(table)
    # One line for all: a column would truncate every path.
    out.print(f"files: {next(iter(builtin_scenarios().values())).parent}", soft_wrap=True)
