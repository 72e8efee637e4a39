"""``cgsa tune``: choose the settings of every method by one protocol, on streams that no comparison scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, Device, out, pick_device, print_json
from cgsa.cli.plans import (
    Address,
    EngineName,
    EngineOption,
    Folder,
    Tf32,
    Threads,
    Together,
    Workers,
    make_engine,
    run_plan,
    together_on,
)


def tune_command(
    plan: Annotated[str, typer.Argument(help="The plan to choose settings for, by name or a .toml file.")],
    folder: Folder = Path("runs"),
    scenario: Annotated[
        list[str] | None, typer.Option(help="Choose for this scenario of the plan alone; may be repeated.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Draws a method, its defaults among them.", min=1)] = 16,
    engine: EngineOption = EngineName.PROCESSES,
    address: Address = None,
    workers: Workers = 0,
    threads: Threads = 1,
    together: Together = 0,
    device: Device = "auto",
    tf32: Tf32 = False,
    *,
    json: AsJson = False,
) -> None:
    """Draw settings for every method of a plan, try them, and write the plan with the best ones.

    Every method gets as many draws from its ranges. They meet streams of another
    simulated assembly than the plan's, with source models of another trial. The
    candidates are written to FOLDER/PLAN-tuning.toml first and kept: called
    again, the search goes on with them. The result is FOLDER/PLAN-tuned.toml.
    """
    from dataclasses import asdict

    from cgsa.bench.plan import Plan
    from cgsa.bench.site import Site
    from cgsa.bench.tuning import candidates, choose, narrowed, tuned
    from cgsa.errors import ConfigError
    from cgsa.files import replacing

    chosen = narrowed(Plan.load(plan), scenario or [])
    drawn = folder / f"{chosen.name}-tuning.toml"
    if not drawn.exists():
        with replacing(drawn, ConfigError) as fresh:
            fresh.write_text(candidates(chosen, budget).to_toml(), encoding="utf-8")
    where = pick_device(device)
    site = Site(Plan.load(drawn), folder, None, where, threads, tf32, together_on(where, together))
    choices = choose(chosen, run_plan(site, make_engine(engine, site, workers, address)))
    result = folder / f"{chosen.name}-tuned.toml"
    with replacing(result, ConfigError) as fresh:
        fresh.write_text(tuned(chosen, choices).to_toml(), encoding="utf-8")
    if json:
        print_json([asdict(choice) for choice in choices])
        return
    shown = Table("method", "draws", "defaults", "chosen", "settings", title=f"{chosen.name}, streams of the search")
    for choice in choices:
        settings = ", ".join(f"{name} {value}" for name, value in choice.entry.settings.items())
        shown.add_row(
            choice.entry.name, str(choice.draws), f"{choice.default:.3f}", f"{choice.best:.3f}", settings or "defaults"
        )
    out.print(shown)
    out.print(f"plan: {result}", soft_wrap=True)
