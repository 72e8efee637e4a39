"""``cgsa collect``: labels given on the pages of a service become recordings of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json, print_note, print_table, talk

if TYPE_CHECKING:
    from cgsa.data.dataset_file import ConditionEntry
    from cgsa.live.labelled_signal import LabelledInterval


def collect_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="SERVICE", help="Folder of the service, as named in its configuration; it may run."),
    ],
    machine: Annotated[Path, typer.Argument(metavar="MACHINE", help="The data set to add to.")],
    name: Annotated[str | None, typer.Option("--machine", help="Labels of this machine only.")] = None,
    case: Annotated[int | None, typer.Option(help="Labels given to this case only.")] = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--condition",
            metavar="NAME=VALUE",
            help="An operating condition of intervals for which the sender stated none, such as [b]speed=1480[/b]; may "
            "be repeated. Without it, a person at the terminal is asked, and elsewhere the interval is left out.",
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Name of the assembly, if it is not that of the machine in the service.")
    ] = None,
    min_seconds: Annotated[float, typer.Option(help="Leave out pieces that are shorter.", min=0.0)] = 2.0,
    *,
    test: Annotated[
        bool, typer.Option("--test", help="Keep the recordings out of training, to evaluate models on them.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Add intervals that people labelled in a service to a data set, for the next training.

    Class is the label, unit the machine, and the session its day. Of an interval,
    the samples are collected that the service still has: in its journal, and around
    alarms. What was collected before is never added again; if labels contradict
    each other, the newest counts. The data set is changed at once or not at all.
    """
    from cgsa.cli.import_questions import can_ask
    from cgsa.config import parse_assignments
    from cgsa.data.dataset import DataSet
    from cgsa.errors import ConfigError
    from cgsa.service.collection import CollectionChoices, collect_labelled

    data_set = DataSet.load(machine)
    known = [one.name for one in data_set.about.conditions]
    given: dict[str, float] = {}
    for key, value in parse_assignments(conditions or []).items():
        if key not in known or not isinstance(value, int | float):
            raise ConfigError(f"--condition {key}={value}; expected a number for one of: {', '.join(known) or 'none'}")
        given[key] = float(value)
    ask = None if json or not can_ask() else _ask
    found = collect_labelled(folder, data_set, CollectionChoices(name, case, given, unit, min_seconds, test, ask))
    for text in found.left_out:
        print_note(text)
    if json:
        print_json(
            {
                "machine": str(machine),
                "added": [{"file": one.file, "class": one.label, "conditions": one.conditions} for one in found.added],
                "seconds": round(found.seconds, 3),
                "left_out": found.left_out,
            }
        )
        return
    if not found.added:
        out.print("nothing to add")
        return
    rows = [
        (one.file, one.label, ", ".join(f"{key} {value}" for key, value in one.conditions.items()))
        for one in found.added
    ]
    print_table(("recording", "class", "conditions"), rows, f"Added to {machine}")
    out.print(f"next: cgsa train {machine} MODEL-2, then: cgsa compare MODEL MODEL-2 {machine}", soft_wrap=True)


def _ask(interval: LabelledInterval, condition: ConditionEntry) -> float | None:
    """Ask a person for a condition of an interval."""
    talk.print(f"{interval.machine}, {interval.state}: its {condition.name} is not known", markup=False)
    text = f"{condition.name}{f' in {condition.unit}' if condition.unit else ''} (blank: leave the interval out)"
    answer = str(typer.prompt(text, default="", show_default=False, err=True)).strip()
    try:
        return float(answer.replace(",", ".")) if answer else None
    except ValueError:
        return None
