"""``cgsa train``: a source model from labelled recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cgsa.cli.console import (
    AsJson,
    Device,
    Profile,
    Seed,
    Set,
    out,
    pick_device,
    print_json,
    print_note,
    progress_bar,
    talk,
)

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from cgsa.data.dataset import DataSet
    from cgsa.data.scenario import Library, Scenario
    from cgsa.data.windows import Segment, Windows
    from cgsa.nn.bundle import Calibration, ModelBundle
    from cgsa.offline.run import Progress, ProgressCallback
    from cgsa.workflow import TrainingSelection

ADVICE = "`cgsa check` shows everything that was found; --despite-problems trains anyway"


def train_command(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE",
            help="The data set of a machine, as [b]cgsa import[/b] writes it; or a scenario, by name (see [b]cgsa "
            "scenarios[/b]) or as a .toml file.",
        ),
    ],
    bundle: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder to write the model to.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder with recordings; without it the scenario's rig is simulated in memory.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="What to train: ensemble, healthy_only, plain, supcon, dann or cal; default: the profile's."),
    ] = None,
    profile: Profile = "recommended",
    changes: Set = None,
    alternatives: Annotated[
        list[str] | None,
        typer.Option(
            "--or",
            help="Settings of another candidate, KEY=VALUE or several separated by blanks, on top of the others; may "
            "be repeated. The candidate with the highest accuracy at held-out conditions is kept.",
        ),
    ] = None,
    specimens: Annotated[int, typer.Option(help="Assemblies of each state, when simulating.", min=1)] = 3,
    seed: Seed = 0,
    device: Device = "auto",
    *,
    healthy_only: Annotated[
        bool,
        typer.Option(
            "--healthy-only",
            help="Use the healthy recordings alone, as profile healthy_only does; this is also what happens if the "
            "scenario names no faults.",
        ),
    ] = False,
    despite_problems: Annotated[
        bool,
        typer.Option(
            "--despite-problems",
            help="Train even if the recordings have problems that make a model worthless, such as the same recording "
            "under two classes; [b]cgsa check[/b] shows them.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Train a model on the data set of a machine, or on the offline segments of a scenario, and save it as a bundle.

    It ends with the accuracy of the model at conditions and on specimens that were
    held out of its training; [b]cgsa info[/b] shows it again. The profile
    [b]paper[/b] trains a network for 200 epochs on every window and needs a GPU;
    [b]quick[/b] is the same for a first try. The same command resumes the
    interrupted training of a network from its last checkpoint.
    """
    from cgsa.cli.card import card_values, print_card
    from cgsa.config import parse_assignments
    from cgsa.profile import Profile as Settings
    from cgsa.workflow import HEALTHY_ONLY, check_candidates, train_candidates

    (plan, library), where = training_material(scenario, data, specimens), pick_device(device)
    simulated = data is None and not Path(scenario).is_dir()
    if healthy_only or not plan.faults:
        profile, objective = HEALTHY_ONLY if profile == "recommended" else profile, HEALTHY_ONLY
    candidates = {
        text: Settings.load(profile, parse_assignments([*(changes or []), *text.split()]))
        for text in ("", *(alternatives or []))
    }
    objective = objective or candidates[""].default_objective
    # Mistakes in the command are reported before any recording is read.
    check_candidates(candidates, bundle, objective)
    with progress_bar() as bar:
        selection = train_candidates(
            plan,
            candidates,
            library(),
            bundle,
            objective=objective,
            seed=seed,
            device=where,
            on_candidate=candidate_report(bar, objective, len(candidates)),
            inspect=None if simulated else partial(_inspect, plan, noted=data is not None, stop=not despite_problems),
        )
    for note in selection.bundle.manifest.notes:
        print_note(note)
    last, manifest = last_epoch(selection.bundle), selection.bundle.manifest
    found = manifest.calibration
    if json:
        compared = {"candidates": selection.accuracy} if len(candidates) > 1 else {}
        held_out = {} if found is None else {"held_out_accuracy": found.accuracy}
        print_json(
            {"bundle": str(bundle), "notes": manifest.notes, **compared, **held_out, **card_values(manifest), **last}
        )
        return
    if len(candidates) > 1:
        out.print(_candidate_table(selection, profile))
    figures = ", ".join(f"{name} {value:.3f}" for name, value in last.items() if isinstance(value, float))
    if manifest.assessment is not None or manifest.healthy_only is not None:
        print_card(manifest, details=False)
    elif found is not None:
        out.print(f"[b]{held_out_line(found)}[/b]", soft_wrap=True)
    out.print(f"{objective} model in {bundle}{': in training, ' if figures else ''}{figures}", soft_wrap=True)


def _inspect(plan: Scenario, segments: Sequence[Segment], *, noted: bool, stop: bool) -> None:
    """Print in what the segments differ from the scenario, and fail if a model trained on them would be worthless."""
    from cgsa.data.recording import grouped_notes
    from cgsa.workflow import inspect_segments

    # An import has already shown what readers found in a data set.
    for note in grouped_notes((one.recording.source, one.recording.notes) for one in segments if noted):
        print_note(note)
    if stop:
        inspect_segments(plan, segments, ADVICE)


def held_out_line(found: Calibration) -> str:
    """Return in words how often a model is right where it was not trained."""
    if not found.levels:
        return (
            f"{found.accuracy:.3f} of the windows right in the last quarter of every recording; training holds too few "
            f"conditions to tell how it does at others"
        )
    later = "" if found.latest_accuracy is None else f", {found.latest_accuracy:.3f} in the last quarter of recordings"
    return (
        f"{found.accuracy:.3f} of the windows right where it was not trained ({found.levels} conditions or machines "
        f"held out in turn){later}"
    )


def _candidate_table(selection: TrainingSelection, profile: str) -> Table:
    table = Table(title="Candidates")
    table.add_column("settings")
    table.add_column("held-out accuracy", justify="right")
    table.add_column("")
    for text, accuracy in selection.accuracy.items():
        shown = "" if accuracy is None else f"{accuracy:.3f}"
        table.add_row(text or f"{profile}, unchanged", shown, "kept" if text == selection.best else "")
    return table


def training_material(text: str, data: Path | None, specimens: int) -> tuple[Scenario, Callable[[], Library]]:
    """Return the scenario that a word of the command line names, and what opens its recordings.

    The folder of a data set is both; its notes are printed.
    """
    from cgsa.data.dataset import DataSet
    from cgsa.data.dataset_file import MACHINE_FILE, is_data_set
    from cgsa.data.scenario import Scenario, builtin_scenarios
    from cgsa.errors import ConfigError

    # A folder may have the name of a scenario.
    named = text in builtin_scenarios() and not is_data_set(text)
    if named or not Path(text).is_dir():
        if (text.endswith("/") or len(Path(text).parts) > 1) and Path(text).suffix != ".toml":
            raise ConfigError(f"{text}: no such folder; expected the data set of a machine, or a scenario")
        plan = Scenario.load(text)
        return plan, lambda: library_for(plan, data, specimens)
    if data is not None:
        raise ConfigError(f"{text} is a folder, and --data names another; pass the data set alone, or a scenario")
    if not is_data_set(text):
        raise ConfigError(f"{text}: a folder without {MACHINE_FILE}; make a data set of it: cgsa import {text} machine")
    found = DataSet.load(text)
    plan = found.scenario()
    for note in (*found.notes, *training_notes(found)):
        print_note(note)
    return plan, lambda: found


def training_notes(data_set: DataSet) -> list[str]:
    """Return what the recordings of a machine do not allow, in words."""
    notes = []
    plan, only = data_set.scenario(), data_set.only_condition
    if not plan.faults:
        notes.append(
            f"all recordings are {plan.healthy}: the model learns the healthy machine, and can say that it changed, "
            f"not which fault it has"
        )
    if only is not None:
        notes.append(
            f"all recordings were made at one operating condition ({only}): how the model does at others cannot be "
            f"estimated"
        )
    return notes


def library_for(scenario: Scenario, data: Path | None, specimens: int) -> Library:
    """Return the recordings of a folder, or of the scenario's simulated rig if there is no folder."""
    from cgsa.data.library import open_library
    from cgsa.rigs.library import RigLibrary

    if data is None:
        return RigLibrary(scenario.require_rig(), specimens=specimens)
    library = open_library(data, scenario)
    for note in library.notes:
        print_note(note)
    return library


def candidate_report(bar: Bar, objective: str, count: int = 1) -> Callable[[str, Windows], ProgressCallback]:
    """Return what announces each candidate and then shows its training on a progress bar."""

    def announce(text: str, windows: Windows) -> ProgressCallback:
        if count > 1:
            talk.print(f"candidate: {text or 'unchanged'}", markup=False)
        talk.print(f"{len(windows)} training windows")
        return _training_report(bar, objective)

    return announce


def _training_report(bar: Bar, title: str) -> ProgressCallback:
    from cgsa.nn.deviation import TAU

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
            if "median_deviation" in progress.row:
                # On the scale of the threshold: far below one, residual guidance rejects nothing.
                note += f" deviation {float(progress.row['median_deviation']) / TAU:.2g} tau"
            bar.update(task, note=f"epoch {progress.epoch + 1}/{progress.epochs} {note}")

    return report


def last_epoch(model: ModelBundle) -> dict[str, object]:
    """Return the figures of the last training epoch."""
    history = model.training.get("history")
    return dict(history[-1]) if isinstance(history, list) and history else {}
