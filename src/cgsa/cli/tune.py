"""``cgsa tune``: choose the settings of every method by one protocol, on streams that no comparison scores."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cgsa.cli import plans
from cgsa.cli.console import AsJson, Device, out, pick_device, print_json, print_table


def tune_command(
    plan: Annotated[str, typer.Argument(help="The plan to tune: a name or a .toml file.")],
    folder: plans.Folder = Path("runs"),
    scenario: Annotated[
        list[str] | None, typer.Option(help="Tune only on this scenario of the plan; may be repeated.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Draws per method, including its defaults.", min=1)] = 16,
    executor: plans.ExecutorOption = plans.ExecutorName.PROCESSES,
    address: plans.Address = None,
    workers: plans.Workers = 0,
    threads: plans.Threads = 1,
    together: plans.Together = 0,
    device: Device = "auto",
    tf32: plans.Tf32 = False,
    *,
    json: AsJson = False,
) -> None:
    """Draw settings for every method of a plan, try them, and write the plan with the best ones.

    Every method gets the same number of draws from its ranges. They run on
    streams of another simulated specimen than the plan's, with source models of
    another trial. The candidates are kept in FOLDER/PLAN-tuning.toml, so that an
    interrupted search resumes. The result is FOLDER/PLAN-tuned.toml.
    """
    from cgsa.bench.plan import Plan
    from cgsa.bench.tuning import best_settings, restrict_to_scenarios, search_plan, tuned_plan
    from cgsa.bench.workspace import PlanWorkspace
    from cgsa.errors import ConfigError
    from cgsa.files import replacing

    chosen = restrict_to_scenarios(Plan.load(plan), scenario or [])
    drawn = folder / f"{chosen.name}-tuning.toml"
    if not drawn.exists():
        with replacing(drawn, ConfigError) as fresh:
            fresh.write_text(search_plan(chosen, budget).to_toml(), encoding="utf-8")
    where = pick_device(device)
    workspace = PlanWorkspace(
        Plan.load(drawn), folder, None, where, threads, tf32, plans.trainings_at_once(where, together)
    )
    choices = best_settings(chosen, plans.run_with_progress_bar(workspace, executor, workers, address))
    result = folder / f"{chosen.name}-tuned.toml"
    with replacing(result, ConfigError) as fresh:
        fresh.write_text(tuned_plan(chosen, choices).to_toml(), encoding="utf-8")
    if json:
        print_json([asdict(choice) for choice in choices])
        return
    rows = []
    for choice in choices:
        settings = ", ".join(f"{name} {value}" for name, value in choice.entry.settings.items()) or "defaults"
        rows.append((choice.entry.name, str(choice.draws), f"{choice.default:.3f}", f"{choice.best:.3f}", settings))
    header = ("method", "draws", "defaults", "chosen", "settings")
    print_table(header, rows, f"{chosen.name}, streams of the search")
    out.print(f"plan: {result}", soft_wrap=True)
