"""``cgsa demo``: simulate, train and diagnose in one go, with nothing to download."""

from __future__ import annotations

import hashlib
import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import TaskID

from cgsa.cli.console import (
    AsJson,
    Device,
    Profile,
    Seed,
    Set,
    out,
    pick_device,
    print_json,
    print_table,
    progress_bar,
    talk,
)

if TYPE_CHECKING:
    from cgsa.data.scenario import Library, Scenario
    from cgsa.data.windows import Windows
    from cgsa.explain.explanation import ExplainedSpectra, Explanation
    from cgsa.metrics.stream import StreamTrace
    from cgsa.nn.bundle import ModelBundle
    from cgsa.profile import Profile as Settings
    from cgsa.report.timeline import LedgerTimeline

METHODS = ("source", "cgsa")


def demo_command(
    scenario: Annotated[
        str, typer.Argument(metavar="RIG", help="Which machine: [b]gearbox[/b] or [b]motor[/b].")
    ] = "gearbox",
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
    """Simulate a machine, train a model, and run it on loads absent from training, with a fault halfway.

    The frozen and the adapting model diagnose the same stream. The command
    prints a table and writes an illustrated report to FOLDER/report.html. It
    reuses recordings and models of earlier calls.
    """
    from cgsa.cli.simulate import write_runs
    from cgsa.cli.train import candidate_report
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
    from cgsa.workflow import stream_windows, train_candidates

    plan = Scenario.load(scenario)
    chosen = plan.require_fault(fault or plan.faults[0])
    settings = Settings.load(profile, parse_assignments(changes or []))
    where = pick_device(device)
    talk.rule(plan.title)

    recordings = folder / f"{plan.name}-{specimens}-specimens"
    write_runs(scenario_jobs(plan, recordings, specimens), jobs=0)

    # A model is reused only if everything it depends on is unchanged.
    inputs = json_text.dumps([as_table(plan), as_table(settings), specimens, seed])
    bundle = folder / f"{plan.name}-model-{hashlib.sha256(inputs.encode()).hexdigest()[:8]}"
    library = FolderLibrary(recordings)
    if bundle.exists():
        model = ModelBundle.load(bundle, where)
    else:
        with progress_bar() as bar:
            announce = candidate_report(bar, "cal")
            model = train_candidates(
                plan, {"": settings}, library, bundle, objective="cal", seed=seed, device=where, on_candidate=announce
            ).bundle

    windows = stream_windows(model, plan, chosen, library, device=where)
    seconds_per_window = model.manifest.window.step / plan.sample_rate
    timeline = figure_timeline(len(windows), seconds_per_window, plan.classes)
    story = StreamComparison(
        title=f"{plan.title}; {chosen.replace('_', ' ')} sets in at the middle",
        traces=_run_methods(model, windows, settings, seed, timeline),
        stages=tuple(f"{stage.name}, {stage.describe(plan.conditions)}" for stage in plan.online),
        seconds_per_window=seconds_per_window,
        conditions=tuple(f"{condition.name} in {condition.unit}" for condition in plan.conditions),
    )
    command = f"cgsa demo {scenario} --fault {chosen} --profile {profile} --specimens {specimens} --seed {seed}"
    reach = " and ".join(f"{condition.maximum:g} {condition.unit}" for condition in plan.conditions)
    fact = (
        f"A simulated {plan.machine}. The model was trained ({model.manifest.objective}, profile {profile}) on "
        f"labelled recordings up to {reach}. It then diagnosed this "
        f"stream of {len(windows)} windows without labels: healthy at first, faulty from the dashed line on."
    )
    explained = _explain_fault(plan, chosen, library)
    page = stream_page(story, [command], [fact], {METHODS[-1]: timeline}, explained)
    report = page.write(folder / "report.html")
    picture = folder / "report.png"
    overview_figure(story).savefig(picture, dpi=80)

    scores = {name: score(trace) for name, trace in story.traces.items()}
    if json:
        print_json({"report": str(report), "scores": {name: asdict(value) for name, value in scores.items()}})
        return
    # Only the report has the two columns on pseudo-labels: they do not fit into a terminal of 80 columns.
    rows = [score_row(name, figures)[:-2] for name, figures in scores.items()]
    print_table(score_header(story.stages)[:-2], rows, story.title)
    out.print(f"report: {report}\npicture: {picture}", soft_wrap=True)


def _explain_fault(plan: Scenario, fault: str, library: Library) -> tuple[Explanation, ExplainedSpectra]:
    """Compare what follows the onset of the fault with what was healthy before."""
    from cgsa.config import builtin_files
    from cgsa.explain.explanation import explain_interval
    from cgsa.explain.kinematics import load_kinematics

    machine = load_kinematics(plan.name) if plan.name in builtin_files("explain/machines") else None
    segments = plan.stream_segments(library, fault)
    faulty = next(one.recording for one in segments if one.label)
    return explain_interval(faulty, [one.recording for one in segments if not one.label], machine)


def _run_methods(
    model: ModelBundle, windows: Windows, settings: Settings, seed: int, timeline: LedgerTimeline
) -> dict[str, StreamTrace]:
    """Run every method on the stream; ``timeline`` collects the ledger rows of the last one."""
    from cgsa.diagnosis.diagnoser import Diagnoser
    from cgsa.diagnosis.labelled import run_stream
    from cgsa.workflow import create_method

    traces = {}
    with progress_bar() as bar:
        for method in METHODS:
            task = bar.add_task(f"stream, {method}", total=len(windows), note="")

            def show(done: int, _: int, task: TaskID = task) -> None:
                bar.update(task, completed=done)

            diagnoser = Diagnoser(
                create_method(model, method, settings, seed=seed, device=windows.device, healthy_start=True)
            )
            on_rows = timeline.add if method == METHODS[-1] else None
            batch_size = settings.stream.batch_size
            traces[method] = run_stream(diagnoser, windows, batch_size=batch_size, on_progress=show, on_rows=on_rows)
    return traces
