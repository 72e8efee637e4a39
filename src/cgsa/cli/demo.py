"""``cgsa demo``: the problem and the answer on one stream, with nothing to download."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cgsa.cli.console import AsJson, Device, Seed, out, pick_device, print_json, talk

if TYPE_CHECKING:
    from cgsa.report.demo_page import DemoStory


def demo_command(
    scenario: Annotated[
        str, typer.Argument(metavar="RIG", help="Which machine: [b]gearbox[/b] or [b]motor[/b].")
    ] = "gearbox",
    folder: Annotated[Path, typer.Option(help="Where recordings, models and page go.")] = Path("demo"),
    fault: Annotated[str, typer.Option(help="The fault that sets in; default: the first of the scenario.")] = "",
    specimens: Annotated[int, typer.Option(help="Assemblies of each state to learn from.", min=1)] = 2,
    seed: Seed = 0,
    device: Device = "auto",
    *,
    json: AsJson = False,
) -> None:
    """Simulate a machine, train two models, and compare three approaches on loads absent from training.

    One stream, healthy at first, with a fault halfway: a trained network that
    is left alone, the paper's CGSA on the same network, and the profile
    [b]recommended[/b]. The command prints who was right and writes an
    interactive page to FOLDER/report.html. It reuses recordings and models of
    earlier calls.
    """
    from cgsa.cli.demo_progress import step_progress
    from cgsa.cli.demo_story import SIMULATE, DemoSettings, compare_approaches, demo_models, usual_seconds
    from cgsa.data.library import FolderLibrary
    from cgsa.data.scenario import Scenario
    from cgsa.evaluation.approaches import APPROACHES
    from cgsa.profile import Profile
    from cgsa.report.demo_page import demo_page
    from cgsa.rigs.simulation import run_simulations, scenario_jobs

    plan = Scenario.load(scenario)
    settings = DemoSettings(
        plan,
        plan.require_fault(fault or plan.faults[0]),
        specimens,
        folder,
        {name: Profile.load(name) for name in dict.fromkeys(one.profile for one in APPROACHES)},
        seed,
        pick_device(device),
    )
    missing = [job for job in scenario_jobs(plan, settings.recordings, specimens) if not job.path.exists()]
    talk.rule(plan.title)
    with step_progress(usual_seconds(settings, len(missing)), talk) as progress:
        if missing:
            progress.begin(SIMULATE)
            written: list[Path] = []

            def count(path: Path) -> None:
                written.append(path)
                progress.update(len(written), len(missing))

            run_simulations(missing, os.cpu_count() or 1, count)
        library = FolderLibrary(settings.recordings)
        story = compare_approaches(settings, library, demo_models(settings, library, progress), progress)
        report = demo_page(story).write(folder / "report.html")
    if json:
        print_json(demo_values(story, report))
    else:
        print_story(story, report)


def demo_values(story: DemoStory, report: Path) -> dict[str, object]:
    """Return everything that the command prints, for other programs."""
    return {
        "report": str(report),
        "fault": story.states[story.truth.fault],
        "outcome": story.outcome,
        "headline": story.headline,
        "approaches": {
            run.approach.key: {"title": run.approach.title, **asdict(found)}
            for run, found in zip(story.runs, story.figures, strict=True)
        },
    }


def print_story(story: DemoStory, report: Path) -> None:
    """Print the figures, what happened, and what to try next."""
    table = Table("", "verdicts\nright", "single\ndecisions", "false\nalarms", "alarm\nafter", "fault\nnamed after")
    for run, found in zip(story.runs, story.figures, strict=True):
        delays = ("never" if one is None else f"{one:.2f} s" for one in (found.delay, found.named_delay))
        table.add_row(
            run.approach.title,
            f"{found.verdicts_right:.1%}",
            f"{found.decisions_right:.1%}",
            str(found.false_alarms),
            *delays,
        )
    out.print(table)
    out.print(f"[b]{escape(story.outcome)}[/b]")
    out.print(escape(story.headline))
    out.print(f"\npage: {report}", soft_wrap=True)
    out.print("\nTry next:")
    for command, what in story.next_steps:
        out.print(f"  [b]{escape(command):<28}[/b]{escape(what)}", soft_wrap=True)
