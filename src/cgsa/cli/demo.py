"""``cgsa demo``: the whole story in one go, with nothing to download."""

from __future__ import annotations

import hashlib
import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import TaskID
from rich.table import Table

from cgsa.cli.console import AsJson, Device, Profile, Seed, Set, out, pick_device, print_json, progress_bar, talk

if TYPE_CHECKING:
    from cgsa.data.windows import Windows
    from cgsa.metrics.stream import StreamTrace
    from cgsa.nn.bundle import ModelBundle
    from cgsa.profile import Profile as Settings
    from cgsa.report.timeline import LedgerTimeline

METHODS = ("source", "cgsa")


def demo_command(
    scenario: Annotated[str, typer.Argument(help="Which machine: [b]gearbox[/b] or [b]motor[/b].")] = "gearbox",
    folder: Annotated[Path, typer.Option(help="Where recordings, model and report go.")] = Path("demo"),
    fault: Annotated[str, typer.Option(help="The fault that sets in; default: the first of the scenario.")] = "",
    specimens: Annotated[int, typer.Option(help="Assemblies of each state to learn from.", min=1)] = 2,
    profile: Profile = "quick",
    changes: Set = None,
    seed: Seed = 0,
    device: Device = "auto",
    *,
    json: AsJson = False,
) -> None:
    """Simulate a machine, train a model, and let it meet loads it never saw and a fault in the middle.

    The frozen model and the adapting one see the same stream. A table is
    printed and a report with pictures is written to FOLDER/report.html. What
    is there from an earlier call, recordings and model, is used again.
    """
    from dataclasses import asdict

    from cgsa.cli.simulate import write_runs
    from cgsa.cli.train import train_candidates
    from cgsa.config import as_table, parse_assignments
    from cgsa.data.library import FolderLibrary
    from cgsa.data.scenario import Scenario
    from cgsa.metrics.stream import score
    from cgsa.nn.bundle import ModelBundle
    from cgsa.profile import Profile as Settings
    from cgsa.report.figures import StreamComparison, overview_figure
    from cgsa.report.ledger import figure_timeline
    from cgsa.report.stream import score_header, score_row, stream_page
    from cgsa.rigs.simulation import scenario_jobs
    from cgsa.workflow import stream_windows

    plan = Scenario.load(scenario)
    chosen = plan.require_fault(fault or plan.faults[0])
    settings = Settings.load(profile, parse_assignments(changes or []))
    where = pick_device(device)
    talk.rule(plan.title)

    recordings = folder / f"{plan.name}-{specimens}-specimens"
    write_runs(scenario_jobs(plan, recordings, specimens), jobs=0)

    # A model is used again only if everything that made it is the same.
    made_of = json_text.dumps([as_table(plan), as_table(settings), specimens, seed])
    bundle = folder / f"{plan.name}-model-{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"
    library = FolderLibrary(recordings)
    if bundle.exists():
        model = ModelBundle.load(bundle, where)
    else:
        model, _ = train_candidates(plan, {"": settings}, library, bundle, objective="cal", seed=seed, device=where)

    windows = stream_windows(model, plan, chosen, library, device=where)
    seconds_per_window = model.manifest.window.step / plan.sample_rate
    course = figure_timeline(len(windows), seconds_per_window, plan.classes)
    story = StreamComparison(
        title=f"{plan.title}; {chosen.replace('_', ' ')} sets in at the middle",
        traces=_meet_all(model, windows, settings, seed, course),
        stages=tuple(f"{stage.name}, {stage.tell(plan.conditions)}" for stage in plan.online),
        seconds_per_window=seconds_per_window,
        conditions=tuple(f"{condition.name} in {condition.unit}" for condition in plan.conditions),
    )
    command = f"cgsa demo {scenario} --fault {chosen} --profile {profile} --specimens {specimens} --seed {seed}"
    reach = " and ".join(f"{condition.maximum:g} {condition.unit}" for condition in plan.conditions)
    fact = (
        f"A simulated {plan.machine}. The model was trained ({model.manifest.objective}, profile {profile}) on "
        f"labelled recordings up to {reach}. Then it met this stream of "
        f"{len(windows)} windows without labels: first healthy, then, from the dashed line on, with the fault."
    )
    report = stream_page(story, [command], [fact], {METHODS[-1]: course}).write(folder / "report.html")
    picture = folder / "report.png"
    overview_figure(story).savefig(picture, dpi=80)

    scores = {name: score(trace) for name, trace in story.traces.items()}
    if json:
        print_json({"report": str(report), "scores": {name: asdict(value) for name, value in scores.items()}})
        return
    # The two columns on pseudo-labels stay in the report: a terminal of 80 columns would cut all the others short.
    table = Table(*score_header(story.stages)[:-2], title=story.title)
    for name, figures in scores.items():
        table.add_row(*score_row(name, figures)[:-2])
    out.print(table)
    out.print(f"report: {report}\npicture: {picture}", soft_wrap=True)


def _meet_all(
    model: ModelBundle, windows: Windows, settings: Settings, seed: int, course: LedgerTimeline
) -> dict[str, StreamTrace]:
    """Let all methods meet the stream; ``course`` learns the reasons of the last one."""
    from cgsa.diagnosis.diagnoser import record
    from cgsa.ledger.rows import LedgerRecorder
    from cgsa.workflow import start_method

    traces = {}
    with progress_bar() as bar:
        for method in METHODS:
            task = bar.add_task(f"stream, {method}", total=len(windows), note="")

            def report(done: int, _: int, task: TaskID = task) -> None:
                bar.update(task, completed=done)

            ready = start_method(model, method, settings, seed=seed, device=windows.device)
            ledger = LedgerRecorder(ready, course.add) if method == METHODS[-1] else None
            traces[method] = record(ready, windows, batch_size=settings.stream.batch_size, report=report, ledger=ledger)
    return traces
