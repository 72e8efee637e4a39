"""``cgsa watch``, also called ``cgsa stream``: diagnose recordings with a trained model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cgsa.cli.alarm_explanations import alarm_explanations
from cgsa.cli.commissioning import commissioning_lines, commissioning_word
from cgsa.cli.console import AsJson, Device, Model, Seed, Set, out, pick_device, print_json, print_note, progress_bar
from cgsa.cli.explain import KinematicsFile
from cgsa.cli.levels import level_lines, level_settings, level_table
from cgsa.cli.reading import Array, Channels, ConditionColumns, Rate, Resample, Units

if TYPE_CHECKING:
    from cgsa.data.read_options import ReadOptions
    from cgsa.data.recording import Recording
    from cgsa.events import Diagnosis
    from cgsa.explain.explanation import Explanation
    from cgsa.ledger.files import LedgerWriter
    from cgsa.live.signal_diagnoser import SignalDiagnoser
    from cgsa.nn.bundle import ModelBundle


def stream_command(
    bundle: Model,
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDINGS",
            help="Recordings in the order in which they were made: files of any format that can be read, or data sets.",
        ),
    ],
    method: Annotated[
        str | None, typer.Option(help="Online method; see [b]cgsa methods[/b]; default: the profile's.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Settings to start from, as for [b]cgsa train[/b]; default: those of its training."),
    ] = None,
    changes: Set = None,
    seed: Seed = 0,
    device: Device = "auto",
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="LIMIT",
            help="Limits of a level, such as [b]gearbox_z velocity 4.5 7.1[/b] (channel, quantity, warning, alarm), "
            "[b]iso20816-3 group 2 rigid[/b] or [b]automatic[/b]; may be repeated. [b]--set levels.duration=30[/b] "
            "sets how long a level must persist.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Folder for a ledger: one row per window with its diagnosis, and why it was used to adapt or not."
        ),
    ] = None,
    kinematics: KinematicsFile = None,
    rate: Rate = None,
    channels: Channels = None,
    units: Units = None,
    condition_columns: ConditionColumns = None,
    array: Array = None,
    resample: Resample = None,
    *,
    healthy_start: Annotated[
        bool,
        typer.Option(
            "--healthy-start",
            help="The machine is known to be healthy when the first recording starts; by default, a start that does "
            "not look healthy to the model leads to a question.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Say which lines and bands changed at every alarm; see [b]cgsa explain[/b] for one of them.",
        ),
    ] = False,
    conditions: Annotated[
        bool,
        typer.Option(
            "--conditions",
            help="Hand over the operating conditions in the recordings, such as the speed, to methods that use them.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Diagnose recordings window by window, adapting without labels, and print the verdicts over time.

    Each line of the table is an interval with one verdict, joined over time;
    [b]--json[/b] prints one event per batch. The model keeps adapting from file
    to file, and windows with sensor faults are rejected as in [b]cgsa serve[/b].
    Labels in the files are never read. What a file does not state, such as its
    sample rate, is taken from the options or, with a note, from the model.
    """
    from cgsa.config import parse_assignments
    from cgsa.data.read_options import ReadOptions
    from cgsa.errors import ConfigError
    from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
    from cgsa.nn.bundle import ModelBundle
    from cgsa.profile import profile_for
    from cgsa.workflow import diagnose, with_healthy_start

    where = pick_device(device)
    options = ReadOptions.parse(
        rate=rate, channels=channels, units=units, conditions=condition_columns or [], resample=resample, array=array
    )
    model = ModelBundle.load(bundle, where)
    assigned = parse_assignments(changes or [])
    levels = level_settings(assigned.pop("levels", {}), limits or [])
    settings = profile_for(model, profile, assigned)
    config = replace(DiagnosisConfig.from_profile(settings, method, seed=seed), levels=levels)
    if healthy_start:
        config = with_healthy_start(config)
    signal = SignalDiagnoser(model, config, device=where)
    if conditions and not signal.method.uses_conditions:
        raise ConfigError(f"method {config.method!r} uses no conditions; leave --conditions out")
    events: list[Diagnosis] = []
    lengths: dict[Path, float] = {}
    with progress_bar() as bar, _open_ledger(signal, bundle, ledger) as writer:

        def read() -> Iterator[Recording]:
            for recording in _read_all(recordings, model, options):
                total = model.manifest.window.count(recording.samples)
                bar.add_task(Path(recording.source).name, total=total, note="")
                lengths[Path(recording.source)] = recording.seconds
                yield recording

        for batch in diagnose(signal, read(), known_conditions=conditions):
            if writer:
                writer.add(batch.rows)
            bar.update(bar.task_ids[-1], advance=batch.event.windows, note=batch.event.state or "")
            events.append(batch.event)
            if json:
                sys.stdout.write(batch.event.to_json() + "\n")
    if not json:
        _print_results(events, config.method, model.manifest.classes)
    if explain or kinematics is not None:
        _print_explanations(alarm_explanations(events, lengths, model, kinematics), json=json)


def _print_results(events: list[Diagnosis], method: str, classes: tuple[str, ...]) -> None:
    """Print the verdicts, how far to trust them, and levels and notes."""
    out.print(_verdict_table(events, method, classes))
    out.print(_trust_line(events), soft_wrap=True)
    for line in _question_lines(events):
        out.print(line, soft_wrap=True, markup=False, style="yellow")
    for line in (*commissioning_lines(events), *_change_lines(events)):
        out.print(line, soft_wrap=True, markup=False)
    if (table := level_table(events)) is not None:
        out.print(table)
    for line in level_lines(events):
        out.print(line, soft_wrap=True, markup=False, style="yellow")


def _print_explanations(explanations: Iterator[Explanation], *, json: bool) -> None:
    for one in explanations:
        if json:
            print_json({"event": "explanation", "version": 1, **asdict(one), "sentences": one.sentences})
            continue
        name = Path(one.source).name
        out.print(f"alarm in {name}, {one.begin:.1f} to {one.end:.1f} s:", soft_wrap=True, markup=False)
        for text in (*one.sentences, *(f"note: {note}" for note in one.notes)):
            out.print(f"  {text}", soft_wrap=True, markup=False)


def _read_all(paths: list[Path], model: ModelBundle, options: ReadOptions) -> Iterator[Recording]:
    """Read the files one after the other, and print what their users should know."""
    from cgsa.data.dataset import DataSet
    from cgsa.data.dataset_file import is_data_set
    from cgsa.workflow import read_for_model, trained_on_part

    for path in paths:
        if is_data_set(path):
            found = DataSet.load(path)
            read = [(found.folder / one.file, partial(found.read, one)) for one in found.about.recordings]
        else:
            read = [(path, partial(read_for_model, path, model, options))]
        for name, open_recording in read:
            recording = open_recording()
            for note in recording.notes:
                print_note(f"{name}: {note}")
            if trained_on_part(recording, model):
                print_note(f"the model was trained on parts of {name}")
            yield replace(recording, source=str(name))


def _open_ledger(
    signal: SignalDiagnoser, bundle: Path, folder: Path | None
) -> AbstractContextManager[LedgerWriter | None]:
    """Open the ledger, if one was asked for."""
    from cgsa import __version__
    from cgsa.ledger.files import LedgerWriter

    if folder is None:
        return nullcontext()
    info = replace(signal.ledger_info(), bundle=str(bundle), sha256=signal.bundle.sha256, cgsa=__version__)
    return LedgerWriter(folder, info)


def _verdict_table(events: list[Diagnosis], method: str, classes: tuple[str, ...]) -> Table:
    """Return one line per interval with one verdict and alarm.

    *sure* is the mean probability of the state, *used* the share of windows that the method learnt from, and *start*
    what is known of the machine's healthy start.
    """
    table = Table(title=f"Diagnosis by {method}")
    commissioned = any(event.commissioning for event in events)
    # On a narrow terminal, long names of files break, and nothing else does.
    table.add_column("recording", overflow="fold")
    for name in ("from", "to", "verdict", "alarm", "sure", "used"):
        table.add_column(name, justify="left" if name in {"verdict", "alarm"} else "right", no_wrap=name != "verdict")
    if commissioned:
        table.add_column("start")
    spans = groupby(
        events, key=lambda event: (event.source, event.state or event.verdict, event.alarm, commissioning_word(event))
    )
    for (source, state, alarm, commissioning), group in spans:
        interval = list(group)
        windows = sum(event.windows for event in interval)
        sure = sum(event.probabilities.get(state, 0.0) * event.windows for event in interval) / windows
        used = sum(event.accepted or 0 for event in interval) / windows
        # An unknown state may be a known fault in an unfamiliar machine, so the nearest fault is named, too.
        nearest = [event.nearest_fault for event in interval if event.nearest_fault is not None]
        named = Counter(fault for fault, _ in nearest).most_common(1)
        like = "".join(
            f", like {fault} ({sum(share for one, share in nearest if one == fault) / count:.0%})"
            for fault, count in named
        )
        # A machine of which nobody knows whether it was healthy at the start is not shown in green.
        unclear = commissioning.startswith(("waiting", "question"))
        colour = "red" if state != classes[0] else "yellow" if unclear else "green"
        table.add_row(
            Path(source).name,
            f"{interval[0].begin:.1f} s",
            f"{interval[-1].end:.1f} s",
            f"[{colour}]{state}[/]{like}",
            alarm or "",
            f"{sure:.0%}",
            "never" if all(event.accepted is None for event in interval) else f"{used:.0%}",
            *([commissioning] if commissioned else []),
        )
    return table


def _question_lines(events: list[Diagnosis]) -> Iterator[str]:
    """Yield one line per interval with the same question about the sensor."""
    for question, group in groupby(events, key=lambda event: event.sensor_question):
        interval = list(group)
        if question is not None:
            yield f"check the sensor, {interval[0].begin:.1f} to {interval[-1].end:.1f} s: {question}"


def _change_lines(events: list[Diagnosis]) -> Iterator[str]:
    """Yield how far the machine is from its healthy state at the end of every interval with one state."""
    for state, group in groupby(events, key=lambda event: event.state):
        last = [event for event in group if event.change is not None][-1:]
        for event in last:
            yield f"{state} at {event.end:.1f} s: {event.change.text if event.change else ''}"


def _trust_line(events: list[Diagnosis]) -> str:
    """Return one line on how far to trust the diagnosis."""

    def mean(name: str) -> float | None:
        known = [(getattr(event.trust, name), event.windows) for event in events if event.trust]
        known = [(value, windows) for value, windows in known if value is not None]
        total = sum(windows for _, windows in known)
        return sum(value * windows for value, windows in known) / total if total else None

    parts = {
        "agreement": "the frozen model agrees on {:.0%} of the windows",
        "coverage": "{:.0%} lie within the range of the training data",
        "accuracy": "estimated accuracy {:.0%}",
    }
    return "trust: " + ", ".join(
        text.format(value) for name, text in parts.items() if (value := mean(name)) is not None
    )
