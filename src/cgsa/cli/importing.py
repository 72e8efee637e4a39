"""``cgsa import``: from a folder of files to the data set of a machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json, print_note, print_table, progress_bar
from cgsa.cli.reading import Array, Channels, Classes, ConditionColumns, Rate, Resample, Units

if TYPE_CHECKING:
    from cgsa.data.dataset import DataSet
    from cgsa.data.importing.key_columns import KeyColumns
    from cgsa.data.importing.plan import ImportPlan
    from cgsa.data.importing.write import ImportResult

MAX_COLUMNS = 4
"""More classes than these are numbered in the table."""


def import_command(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="Folder of recordings, or files, in any format that can be read."),
    ],
    machine: Annotated[Path, typer.Argument(metavar="MACHINE", help="Folder to write the data set to.")],
    names: Annotated[
        str | None,
        typer.Option(
            help="What the names say: [b]{class}_{speed}rpm[/b], or with folders [b]{class}/{speed}rpm/*[/b]. "
            "[b]{class}[/b], [b]{unit}[/b], [b]{run}[/b] and [b]{split}[/b] are text, any other name is a condition, "
            "[b]*[/b] is anything."
        ),
    ] = None,
    classes: Classes = None,
    class_column: Annotated[
        str | None,
        typer.Option(help="Column of tables that holds the class; recordings begin where it changes."),
    ] = None,
    unit_column: Annotated[
        str | None, typer.Option(help="Column that holds the name of the unit, beside [b]--class-column[/b].")
    ] = None,
    run_column: Annotated[
        str | None, typer.Option(help="Column that holds the name of the run, beside [b]--class-column[/b].")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="A table instead of names: columns file, class, and if wanted unit, run, split, conditions."),
    ] = None,
    healthy: Annotated[str | None, typer.Option(help="The class of the healthy machine.")] = None,
    rate: Rate = None,
    channels: Channels = None,
    units: Units = None,
    condition_columns: ConditionColumns = None,
    array: Array = None,
    resample: Resample = None,
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the data set in MACHINE, if there is one.")
    ] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out files that cannot be read, instead of stopping.")
    ] = False,
    despite_problems: Annotated[
        bool,
        typer.Option(
            "--despite-problems",
            help="Write the data set even if its recordings have problems that make a model worthless.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, and use the suggested pattern.")] = False,
    json: AsJson = False,
) -> None:
    """Turn recordings into the data set of a machine: Parquet files and a readable machine.toml.

    Delimiter, decimal comma, row of units and sample rate are found in the files;
    class, conditions, unit and run in their names, in folders, columns or a table.
    Folders with a meta.json and MCC5-THU files need no pattern. In a terminal, the
    command asks for what is missing; elsewhere, options say it. The data set
    appears when it is complete, and an interrupted import resumes.
    """
    from cgsa.cli.import_questions import ImportQuestions, can_ask
    from cgsa.data.importing.choose import ImportChoices, choose_plan
    from cgsa.data.importing.overview import overview
    from cgsa.data.importing.write import check_target
    from cgsa.data.read_options import ReadOptions

    check_target(machine, replace_existing=replace)
    options = ReadOptions.parse(
        rate=rate, channels=channels, units=units, conditions=condition_columns or [], resample=resample, array=array
    )
    questions = None if yes or json or not can_ask() else ImportQuestions()
    columns = _key_columns(class_column, unit_column, run_column)
    choices = ImportChoices(names, table, classes, columns, healthy, yes, questions)
    plan = choose_plan(data, options, choices)
    for note in plan.notes:
        print_note(note)
    if questions is not None and not questions.confirm_plan(plan, machine):
        raise typer.Exit(1)
    inspect = None if despite_problems else _inspect
    result = _write_with_progress(plan, machine, replace=replace, skip_damaged=skip_damaged, inspect=inspect)
    found = overview(result)
    if json:
        points = [
            {"condition": point, "recordings": dict(zip(found.classes, counts, strict=True))}
            for point, counts in found.points
        ]
        print_json(
            {"machine": str(machine), **dict(found.facts), "classes": found.classes, "points": points, "odd": found.odd}
        )
        return
    print_table(("", ""), found.facts, f"Data set in {machine}")
    rows = [(point, *(str(count) if count else "-" for count in counts)) for point, counts in found.points]
    if len(found.classes) > MAX_COLUMNS:
        # Names of many classes would leave no room for the conditions.
        numbers = [str(number) for number, _ in enumerate(found.classes, start=1)]
        print_table(("recordings at", *numbers), rows)
        listed = ", ".join(f"{number} {name}" for number, name in zip(numbers, found.classes, strict=True))
        out.print(f"classes: {listed}", soft_wrap=True, markup=False)
    else:
        print_table(("recordings at", *found.classes), rows)
    for text in found.odd:
        print_note(text)
    out.print(f"next: cgsa train {machine} MODEL", soft_wrap=True, markup=False)


def _key_columns(label: str | None, unit: str | None, run: str | None) -> KeyColumns | None:
    from cgsa.data.importing.key_columns import KeyColumns
    from cgsa.errors import ConfigError

    if label is None:
        if unit is not None or run is not None:
            raise ConfigError("--unit-column and --run-column need --class-column")
        return None
    return KeyColumns(label, unit, run)


def _inspect(draft: DataSet) -> None:
    """Stop at recordings that make a model worthless."""
    from cgsa.check.run import require_trainable
    from cgsa.check.sources import of_data_set

    require_trainable(of_data_set(draft), "--despite-problems imports them anyway")


def _write_with_progress(
    plan: ImportPlan,
    machine: Path,
    *,
    replace: bool,
    skip_damaged: bool,
    inspect: Callable[[DataSet], None] | None,
) -> ImportResult:
    from cgsa.data.importing.write import write_data_set

    with progress_bar() as bar:
        task = bar.add_task("recordings", total=len(plan.recordings), note="")
        return write_data_set(
            plan,
            machine,
            replace_existing=replace,
            skip_damaged=skip_damaged,
            on_progress=lambda done, name: bar.update(task, completed=done, note=name),
            inspect=inspect,
        )
