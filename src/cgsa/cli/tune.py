"""``cgsa tune``: choose the settings of every method by one protocol, on streams that no comparison scores."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cgsa.cli import plans
from cgsa.cli.console import AsJson, Device, out, pick_device, print_json, print_note, print_table
from cgsa.cli.preflight import check_before_run


def tune_command(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan to tune: a name or a .toml file.")],
    folder: plans.Folder = Path("runs"),
    scenario: Annotated[
        list[str] | None, typer.Option(help="Tune only on this scenario of the plan; may be repeated.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Draws per method, including its defaults.", min=1)] = 16,
    data: Annotated[
        Path | None, typer.Option(help="Folder with recordings; without it, the rigs are simulated.")
    ] = None,
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
    another trial. With --data, they run on parts of the training recordings that
    are held out of these models; the streams of the plan are not read. The
    candidates are kept in FOLDER/PLAN-tuning.toml, so that an interrupted search
    resumes. The result is FOLDER/PLAN-tuned.toml.
    """
    from cgsa.bench.plan import Plan
    from cgsa.bench.search import write_search_scenarios
    from cgsa.bench.tuning import NO_OP, best_settings, restrict_to_scenarios, search_plan, tuned_plan
    from cgsa.bench.workspace import PlanWorkspace
    from cgsa.errors import ConfigError
    from cgsa.files import replacing

    chosen = restrict_to_scenarios(Plan.load(plan), scenario or [])
    drawn = folder / f"{chosen.name}-tuning.toml"
    if not drawn.exists():
        with replacing(drawn, ConfigError) as fresh:
            real = write_search_scenarios(chosen.scenarios, folder / "tuning") if data else None
            fresh.write_text(search_plan(chosen, budget, real).to_toml(), encoding="utf-8")
    where = pick_device(device)
    workspace = PlanWorkspace(
        Plan.load(drawn), folder, data, where, threads, tf32, plans.trainings_at_once(where, together)
    )
    check_before_run(workspace)
    choices = best_settings(chosen, plans.run_with_progress_bar(workspace, executor, workers, address))
    result = folder / f"{chosen.name}-tuned.toml"
    with replacing(result, ConfigError) as fresh:
        fresh.write_text(tuned_plan(chosen, choices).to_toml(), encoding="utf-8")
    if json:
        print_json([{**asdict(choice), "is_no_op": choice.is_no_op} for choice in choices])
        return
    rows = []
    for choice in choices:
        settings = ", ".join(f"{name} {value}" for name, value in choice.entry.settings.items()) or "defaults"
        changed = "" if choice.changed is None or choice.entry.method == "source" else f"{choice.changed:.4f}"
        figures = (f"{choice.default:.3f}", f"{choice.best:.3f}", changed + (" no-op" if choice.is_no_op else ""))
        rows.append((choice.entry.name, str(choice.draws), *figures, settings))
    header = ("method", "draws", "defaults", "chosen", "changed", "settings")
    print_table(header, rows, f"{chosen.name}, streams of the search")
    idle = [choice.entry.name for choice in choices if choice.is_no_op]
    if idle:
        print_note(
            f"{', '.join(idle)}: the chosen settings give fewer than {NO_OP:.1%} of the windows another class than the "
            f"frozen model; no draw that does something was better"
        )
    out.print(f"plan: {result}", soft_wrap=True)
