"""``cgsa methods`` and ``cgsa scenarios``: what there is to choose from."""

from __future__ import annotations

from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json


def methods(*, json: AsJson = False) -> None:
    """List the ways to train a model (objectives) and to meet a stream with it (online methods)."""
    from cgsa.offline import OBJECTIVES
    from cgsa.online import METHODS

    found = [("offline", name, OBJECTIVES[name].summary, sorted(OBJECTIVES[name].needs)) for name in OBJECTIVES]
    found += [("online", name, METHODS[name].summary, sorted(METHODS[name].needs)) for name in METHODS]
    if json:
        print_json([dict(zip(("stage", "name", "summary", "needs"), row, strict=True)) for row in found])
        return
    table = Table("stage", "name", "what it does", "needs")
    for stage, name, summary, needs in found:
        table.add_row(stage, f"[b]{name}[/b]", summary, ", ".join(needs))
    out.print(table)


def scenarios(*, json: AsJson = False) -> None:
    """List the built-in scenarios: what a model is trained on, and which stream it then meets.

    The files are plain TOML: copy one, change it, and pass its path instead of
    a name.
    """
    from cgsa.config import as_table
    from cgsa.data.scenario import Scenario, builtin_scenarios

    found = {name: (Scenario.load(name), path) for name, path in builtin_scenarios().items()}
    if json:
        print_json([{**as_table(scenario), "file": str(path)} for scenario, path in found.values()])
        return
    table = Table("scenario", "title", "classes", "online stages", "file")
    for name, (scenario, path) in found.items():
        stages = ", ".join(f"{stage.name} {stage.level:g} {scenario.condition.unit}" for stage in scenario.online)
        table.add_row(f"[b]{name}[/b]", scenario.title, ", ".join(scenario.classes), stages, str(path))
    out.print(table)
