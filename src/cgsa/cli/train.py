"""``cgsa train``: a source model from labelled recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, Device, Profile, Seed, Set, out, pick_device, print_json, progress_bar, talk
from cgsa.errors import BundleError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from cgsa.data.scenario import Library, Scenario
    from cgsa.nn.bundle import ModelBundle
    from cgsa.offline.trainer import Progress, Report
    from cgsa.profiles import Profile as Settings


def train(
    scenario: Annotated[str, typer.Argument(help="A scenario by name (see [b]cgsa scenarios[/b]) or a .toml file.")],
    bundle: Annotated[Path, typer.Argument(help="Folder to write the model to.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with recordings; without it the scenario's rig is simulated in memory."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="How to train: plain, supcon, dann or cal; default: the profile's.")
    ] = None,
    profile: Profile = "paper",
    changes: Set = None,
    specimens: Annotated[int, typer.Option(help="Assemblies of each state, when simulating.", min=1)] = 3,
    seed: Seed = 0,
    device: Device = "auto",
    *,
    json: AsJson = False,
) -> None:
    """Train a model on the offline segments of a scenario and save it as a bundle.

    A stopped training goes on from its last checkpoint when the same command
    is called again. The profile [b]paper[/b] takes 200 epochs over every window
    and wants a GPU; [b]quick[/b] is for a first look; [b]robust[/b] is for real
    machines.
    """
    from cgsa.config import bind, parse_assignments
    from cgsa.data.scenario import Scenario
    from cgsa.offline import OBJECTIVES
    from cgsa.profiles import Profile as Settings

    # Everything that can be wrong in the words of the command is looked at before any recording is read.
    settings = Settings.load(profile, parse_assignments(changes or []))
    plan = Scenario.load(scenario)
    objective = objective or settings.default_objective
    bind(OBJECTIVES[objective].Config, settings.objective_settings(objective), f"objective {objective}")
    if bundle.exists() and not (bundle / "manifest.json").exists():
        raise BundleError(f"{bundle}: exists and is no bundle; choose another folder")
    library = open_library(plan, data, specimens)
    model = train_bundle(plan, settings, library, bundle, objective=objective, seed=seed, device=pick_device(device))
    last = last_row(model)
    if json:
        print_json({"bundle": str(bundle), "notes": model.manifest.notes, **last})
    else:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in last.items() if isinstance(value, float))
        out.print(f"{objective} model in {bundle}: {figures}", soft_wrap=True)


def train_bundle(
    scenario: Scenario,
    settings: Settings,
    library: Library,
    bundle: Path,
    *,
    objective: str,
    seed: int,
    device: str,
) -> ModelBundle:
    """Train with a progress bar and save the bundle; checkpoints stand beside it until it is whole."""
    from cgsa.offline.checkpoint import remove_checkpoint
    from cgsa.workflow import train as train_model
    from cgsa.workflow import training_windows

    checkpoint = bundle.with_name(f"{bundle.name}.training")
    with talk.status(f"cutting the windows of {scenario.name}"):
        windows = training_windows(scenario, settings, library, device)
    talk.print(f"{len(windows)} training windows of {', '.join(scenario.classes)}")
    with progress_bar() as bar:
        model = train_model(
            scenario,
            settings,
            windows,
            objective=objective,
            seed=seed,
            checkpoint=checkpoint,
            report=training_report(bar, objective),
        )
    model.save(bundle)
    remove_checkpoint(checkpoint)
    for note in model.manifest.notes:
        talk.print(f"[bold yellow]note:[/] {note}")
    return model


def open_library(scenario: Scenario, data: Path | None, specimens: int) -> Library:
    """Return the recordings of a folder, or of the scenario's simulated rig."""
    from cgsa.data.library import RigLibrary
    from cgsa.data.library import open_library as open_folder

    if data is None:
        return RigLibrary(scenario.require_rig(), specimens=specimens)
    library = open_folder(data, scenario)
    for note in library.notes:
        talk.print(f"[yellow]note:[/] {note}", soft_wrap=True)
    return library


def training_report(bar: Bar, title: str) -> Report:
    """Return a callback that shows a training on a progress bar."""
    tasks = {}

    def report(progress: Progress) -> None:
        total = progress.epochs * progress.steps
        if progress.phase not in tasks:
            name = title if progress.phase == title else f"{title}: {progress.phase}"
            tasks[progress.phase] = bar.add_task(f"training {name}", total=total, note="")
        task = tasks[progress.phase]
        bar.update(task, completed=progress.epoch * progress.steps + progress.step)
        if progress.row is not None:
            shown = ("loss", "accuracy", "discriminator_r2")
            note = " ".join(f"{name} {progress.row[name]:.3f}" for name in shown if name in progress.row)
            bar.update(task, note=f"epoch {progress.epoch + 1}/{progress.epochs} {note}")

    return report


def last_row(model: ModelBundle) -> dict[str, object]:
    """Return the figures of the last epoch."""
    history = model.training.get("history")
    return dict(history[-1]) if isinstance(history, list) and history else {}
