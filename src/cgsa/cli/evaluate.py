"""``cgsa evaluate``: how good a model is on labelled recordings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import (
    AsJson,
    Device,
    Model,
    Seed,
    Set,
    out,
    pick_device,
    print_json,
    print_note,
    print_page,
    recording_progress,
)
from cgsa.cli.reading import Array, Channels, Classes, ConditionColumns, Rate, Resample, Units

if TYPE_CHECKING:
    from cgsa.data.dataset import DataSet
    from cgsa.data.importing.choose import ImportChoices
    from cgsa.data.read_options import ReadOptions
    from cgsa.evaluation.results import Evaluation
    from cgsa.nn.bundle import ModelBundle


def evaluate_command(
    bundle: Model,
    machine: Annotated[
        Path,
        typer.Argument(
            metavar="MACHINE", help="A data set, or a folder of files whose names or table say what they are."
        ),
    ],
    leave_out: Annotated[
        bool,
        typer.Option(
            "--leave-out",
            help="Train a model like this one without each operating condition in turn, and evaluate it there.",
        ),
    ] = False,
    names: Annotated[str | None, typer.Option(help="What the names of files say, as for [b]cgsa import[/b].")] = None,
    classes: Classes = None,
    table: Annotated[Path | None, typer.Option(help="A table of the files, as for [b]cgsa import[/b].")] = None,
    healthy: Annotated[str | None, typer.Option(help="The class of the healthy machine, for files.")] = None,
    rate: Rate = None,
    channels: Channels = None,
    units: Units = None,
    condition_columns: ConditionColumns = None,
    array: Array = None,
    resample: Resample = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="Settings to use instead of those that the model was trained under.")
    ] = None,
    changes: Set = None,
    seed: Seed = 0,
    device: Device = "auto",
    *,
    json: AsJson = False,
) -> None:
    """Run a model on labelled recordings, and show verdicts, alarms, delays and false alarms by condition and class.

    Every healthy recording is watched alone; every fault follows a healthy
    recording of its operating condition. Recordings that the model was trained on
    are shown apart, since they say little. With [b]--leave-out[/b], the figures
    are those of models that never saw the condition.
    """
    from cgsa.config import parse_assignments
    from cgsa.data.importing.choose import ImportChoices
    from cgsa.data.read_options import ReadOptions
    from cgsa.evaluation.run import evaluate, evaluate_leaving_out
    from cgsa.nn.bundle import ModelBundle
    from cgsa.profile import profile_for

    where = pick_device(device)
    model = ModelBundle.load(bundle, where)
    settings = profile_for(model, profile, parse_assignments(changes or []))
    options = ReadOptions.parse(
        rate=rate, channels=channels, units=units, conditions=condition_columns or [], resample=resample, array=array
    )
    run = evaluate_leaving_out if leave_out else evaluate
    choices = ImportChoices(names, table, classes, healthy=healthy)
    with _labelled(machine, model, options, choices) as data_set, recording_progress() as report:
        found = run(
            model,
            data_set,
            name=str(bundle),
            seed=seed,
            device=where,
            profile=settings,
            on_stream=report,
        )
    found = replace(found, data=str(machine))
    if html is not None:
        from cgsa.report.evaluation import evaluation_page

        evaluation_page(found).write(html)
    for note in found.notes:
        print_note(note)
    if json:
        from cgsa.report.evaluation_values import evaluation_values

        print_json(evaluation_values(found))
        return
    _print(found)
    print_page(html)


def _print(found: Evaluation) -> None:
    from cgsa.cli.card import print_card_table, print_sentences
    from cgsa.report.evaluation_tables import (
        SMALL_PRINT,
        group_name,
        headline,
        overall_table,
        point_table,
        truth_table,
    )

    print_sentences(headline(found))
    print_card_table(overall_table(found))
    # What the model was trained on gets one column above, and details only where there is nothing else.
    group = found.groups[0]
    name = group_name(group, found)
    print_card_table(point_table(group, name))
    print_card_table(truth_table(group, found, name))
    out.print(f"[dim]{SMALL_PRINT}[/dim]")


@contextmanager
def _labelled(machine: Path, model: ModelBundle, options: ReadOptions, choices: ImportChoices) -> Iterator[DataSet]:
    """Open a data set; files become one in a temporary folder."""
    from cgsa.data.dataset import DataSet
    from cgsa.data.dataset_file import is_data_set
    from cgsa.data.importing.write import write_data_set
    from cgsa.evaluation.run import plan_for_model

    if is_data_set(machine):
        yield DataSet.load(machine)
        return
    with TemporaryDirectory(prefix="cgsa-evaluate-") as folder:
        plan = plan_for_model(machine, model, options, choices)
        for note in plan.notes:
            print_note(note)
        yield write_data_set(plan, Path(folder) / "machine").data_set
