"""``cgsa train``: a source model from labelled recordings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, Device, Profile, Seed, Set, out, pick_device, print_json, progress_bar, talk
from cgsa.errors import BundleError, ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from cgsa.data.scenario import Library, Scenario
    from cgsa.nn.bundle import ModelBundle
    from cgsa.offline.trainer import Progress, Report
    from cgsa.profile import Profile as Settings


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
    alternatives: Annotated[
        list[str] | None,
        typer.Option(
            "--or",
            help="Settings of one more candidate, KEY=VALUE or several with blanks between, on top of the others; may "
            "be repeated. The candidate is kept that is right most often at conditions left out of its training.",
        ),
    ] = None,
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
    from cgsa.profile import Profile as Settings

    # Everything that can be wrong in the words of the command is looked at before any recording is read.
    given = changes or []
    candidates = {
        words: Settings.load(profile, parse_assignments([*given, *words.split()]))
        for words in ("", *(alternatives or []))
    }
    settings, plan = candidates[""], Scenario.load(scenario)
    objective = objective or settings.default_objective
    for one in candidates.values():
        bind(OBJECTIVES[objective].Config, one.objective_settings(objective), f"objective {objective}")
        if len(candidates) > 1 and not one.train.calibrate:
            raise ConfigError(
                "candidates are judged at conditions left out of their training, so --or needs train.calibrate=true, "
                "or profile robust"
            )
    if bundle.exists() and not (bundle / "manifest.json").exists():
        raise BundleError(f"{bundle}: exists and is no bundle; choose another folder")
    library = library_for(plan, data, specimens)
    model, worth = train_candidates(
        plan, candidates, library, bundle, objective=objective, seed=seed, device=pick_device(device)
    )
    last = last_row(model)
    if json:
        told = {"candidates": worth} if len(worth) > 1 else {}
        print_json({"bundle": str(bundle), "notes": model.manifest.notes, **told, **last})
        return
    if len(worth) > 1:
        out.print(_compared(worth, profile))
    figures = ", ".join(f"{name} {value:.3f}" for name, value in last.items() if isinstance(value, float))
    out.print(f"{objective} model in {bundle}: {figures}", soft_wrap=True)


def _compared(worth: Mapping[str, float | None], profile: str) -> Table:
    """Return what candidates were worth where they were not trained, the one that is kept marked."""
    best = _best(worth)
    table = Table(title="Candidates")
    table.add_column("settings")
    table.add_column("right where left out", justify="right")
    table.add_column("")
    for words, accuracy in worth.items():
        name = words or f"{profile}, as it is"
        table.add_row(name, "" if accuracy is None else f"{accuracy:.3f}", "kept" if words == best else "")
    return table


def _best(worth: Mapping[str, float | None]) -> str:
    """Return the candidate that is worth most; where two are worth the same, the first."""
    return max(worth, key=lambda words: worth[words] or 0.0)


def train_candidates(
    scenario: Scenario,
    candidates: Mapping[str, Settings],
    library: Library,
    bundle: Path,
    *,
    objective: str,
    seed: int,
    device: str,
) -> tuple[ModelBundle, dict[str, float | None]]:
    """Train every candidate, save the one that is worth most, and return it with what each is worth.

    Checkpoints stand beside the bundle until it is whole, those of candidates that are finished too.
    """
    from cgsa.offline.checkpoint import remove_checkpoint

    checkpoint = bundle.with_name(f"{bundle.name}.training")
    models: dict[str, ModelBundle] = {}
    for number, (words, settings) in enumerate(candidates.items()):
        if words:
            talk.print(f"candidate {number + 1} of {len(candidates)}: {words}", markup=False)
        models[words] = _trained(
            scenario,
            settings,
            library,
            checkpoint / f"candidate_{number + 1}" if number else checkpoint,
            objective=objective,
            seed=seed,
            device=device,
        )
    calibrations = {words: model.manifest.calibration for words, model in models.items()}
    worth = {words: None if found is None else found.held_out_accuracy for words, found in calibrations.items()}
    best = models[_best(worth)]
    best.save(bundle)
    remove_checkpoint(checkpoint)
    for note in best.manifest.notes:
        talk.print(f"[bold yellow]note:[/] {note}")
    return best, worth


def _trained(
    scenario: Scenario,
    settings: Settings,
    library: Library,
    checkpoint: Path,
    *,
    objective: str,
    seed: int,
    device: str,
) -> ModelBundle:
    """Train one model with a progress bar."""
    from cgsa.workflow import train as train_model
    from cgsa.workflow import training_windows

    with talk.status(f"cutting the windows of {scenario.name}"):
        windows = training_windows(scenario, settings, library, device)
    talk.print(f"{len(windows)} training windows of {', '.join(scenario.classes)}")
    with progress_bar() as bar:
        return train_model(
            scenario,
            settings,
            windows,
            objective=objective,
            seed=seed,
            checkpoint=checkpoint,
            report=training_report(bar, objective),
        )


def library_for(scenario: Scenario, data: Path | None, specimens: int) -> Library:
    """Return the recordings of a folder, or of the scenario's simulated rig."""
    from cgsa.data.library import open_library as open_folder
    from cgsa.rigs.library import RigLibrary

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
