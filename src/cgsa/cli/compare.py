"""``cgsa compare``: an old and a new model on recorded streams, before one takes the place of the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import (
    AsJson,
    Device,
    Seed,
    out,
    pick_device,
    print_json,
    print_note,
    print_page,
    recording_progress,
)
from cgsa.cli.reading import Array, Channels, ConditionColumns, Rate, Resample, Units

if TYPE_CHECKING:
    from cgsa.data.read_options import ReadOptions
    from cgsa.data.recording import Recording
    from cgsa.evaluation.model_comparison import ModelComparison
    from cgsa.nn.bundle import ModelBundle


def compare_command(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The model in use.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The model that may take its place.")],
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDINGS", help="A data set; or files of one machine in the order in which they were made."
        ),
    ],
    rate: Rate = None,
    channels: Channels = None,
    units: Units = None,
    condition_columns: ConditionColumns = None,
    array: Array = None,
    resample: Resample = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    *,
    healthy_start: Annotated[
        bool, typer.Option("--healthy-start", help="The machine is known to be healthy when the first file starts.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Run an old and a new model on the same recordings, and show their verdicts, alarms and differences side by side.

    On a data set, what is right is known: every healthy recording is watched alone,
    every fault follows a healthy recording. On other files, the verdicts and alarms
    of the models are compared with each other. Nothing is switched; to do so, set
    the model of the machine in the configuration of the service.
    """
    from cgsa.data.dataset import DataSet
    from cgsa.data.dataset_file import is_data_set
    from cgsa.data.read_options import ReadOptions
    from cgsa.evaluation.model_comparison import compare_on_data_set, compare_on_recordings
    from cgsa.nn.bundle import ModelBundle

    where = pick_device(device)
    bundles = ModelBundle.load(old, where), ModelBundle.load(new, where)
    names = str(old), str(new)
    options = ReadOptions.parse(
        rate=rate, channels=channels, units=units, conditions=condition_columns or [], resample=resample, array=array
    )
    with recording_progress() as report:
        if len(recordings) == 1 and is_data_set(recordings[0]):
            found = compare_on_data_set(
                bundles,
                names,
                DataSet.load(recordings[0]),
                seed=seed,
                device=where,
                on_stream=report,
            )
        else:
            read = _read_files(recordings, bundles[1], options)
            found = compare_on_recordings(bundles, names, read, healthy_start=healthy_start, seed=seed, device=where)
    if html is not None:
        from cgsa.report.comparison import comparison_page

        comparison_page(found).write(html)
    if json:
        from cgsa.report.comparison_tables import comparison_values

        print_json(comparison_values(found))
        return
    _print(found)
    print_page(html)


def _print(found: ModelComparison) -> None:
    from cgsa.cli.card import print_card_table, print_sentences
    from cgsa.report.comparison_tables import (
        COMPARISON_NOTE,
        compared_stream_table,
        comparison_sentences,
        disagreement_table,
        side_tables,
    )

    print_sentences(comparison_sentences(found))
    for table in (*side_tables(found), compared_stream_table(found), disagreement_table(found)):
        if table.rows:
            print_card_table(table)
    if found.labelled:
        out.print(f"[dim]{COMPARISON_NOTE}[/dim]")


def _read_files(paths: list[Path], model: ModelBundle, options: ReadOptions) -> list[Recording]:
    from cgsa.data.dataset_file import is_data_set
    from cgsa.errors import ConfigError
    from cgsa.workflow import read_for_model

    if any(is_data_set(path) for path in paths):
        raise ConfigError("a data set among other recordings; expected one data set alone, or files")
    found = []
    for path in paths:
        recording = read_for_model(path, model, options)
        for note in recording.notes:
            print_note(f"{path}: {note}")
        found.append(recording)
    return found
