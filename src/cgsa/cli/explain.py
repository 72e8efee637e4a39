"""``cgsa explain``: which lines, bands and channels made a recording look as it does."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, Model, out, print_json, print_note, print_page, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cgsa.data.recording import Recording
    from cgsa.explain.contributions import Contributions
    from cgsa.explain.envelope import EnvelopeMethod
    from cgsa.explain.explanation import Explanation
    from cgsa.explain.kinematics import Kinematics
    from cgsa.nn.bundle import ModelBundle


KinematicsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File with the section [b]\\[kinematics][/b] (shafts, gears, bearings, motor), or one of those that come "
        "with cgsa: [b]gearbox[/b], [b]motor[/b], [b]kat_units[/b].",
    ),
]


def explain_command(
    bundle: Model,
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="The recording to explain.")],
    begin: Annotated[
        float | None, typer.Option("--from", metavar="S", help="Start of the interval; default: the first alarm.")
    ] = None,
    end: Annotated[
        float | None, typer.Option("--to", metavar="S", help="End of the interval; default: the end of that alarm.")
    ] = None,
    healthy: Annotated[
        list[Path] | None,
        typer.Option(
            "--healthy",
            help="A healthy recording of the machine, or a data set with some; may be repeated, and those at the "
            "nearest condition count. Default: what comes before the interval, then the recordings that the model "
            "was trained on.",
        ),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(metavar="RPM", help="Speed of the first shaft; default: as in the recording.")
    ] = None,
    kinematics: KinematicsFile = None,
    envelope: Annotated[
        str,
        typer.Option(
            help="Envelope of the [b]prewhitened[/b] signal, of the band of highest [b]kurtosis[/b], of the "
            "[b]broad[/b] signal, or several, [b]pooled[/b]."
        ),
    ] = "pooled",
    html: Annotated[Path | None, typer.Option("--html", metavar="PAGE", help="Write a page with pictures.")] = None,
    *,
    healthy_start: Annotated[
        bool,
        typer.Option("--healthy-start", help="The machine is known to be healthy when the recording starts."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Explain what an interval of a recording has that the healthy machine has not.

    Compares spectra and envelope spectra with those of the healthy machine at
    the nearest condition, names lines by the parts of the machine that have
    such lines, and lists the bands, channels and features that the model
    decided by. Without [b]--from[/b], the recording is diagnosed first.
    """
    from cgsa.explain.explanation import explain_interval
    from cgsa.explain.kinematics import load_kinematics
    from cgsa.nn.bundle import ModelBundle

    model = ModelBundle.load(bundle)
    machine = None if kinematics is None else load_kinematics(kinematics)
    whole = replace(explained_channels(_read(recording, model, machine), model, machine), offset=0)
    span, label = (begin, end), None
    if begin is None and end is None:
        span, label = _alarm_of(whole, model, healthy_start=healthy_start)
    current = interval_of(whole, *span)
    references = [explained_channels(one, model, machine) for one in _healthy(healthy or [], model, machine)]
    references = references or healthy_before(whole, current) or _trained_on(model, current)
    explanation, spectra = explain_interval(current, references, machine, speed=speed, envelope=_envelope(envelope))
    found = _contributions(model, current, references, label)
    if html is not None:
        from cgsa.report.explain import explain_page

        words = [f"cgsa explain {bundle} {recording} --from {explanation.begin:g} --to {explanation.end:g}"]
        words += [f"--healthy {path}" for path in healthy or ()] + ([f"--speed {speed:g}"] if speed else [])
        words += [f"--kinematics {kinematics}"] if kinematics else []
        explain_page(explanation, spectra, found, [" ".join(words)]).write(html)
    if json:
        print_json(
            {**asdict(explanation), "sentences": explanation.sentences, "contributions": found and asdict(found)}
        )
        return
    _print(explanation, found)
    print_page(html)


def _print(explanation: Explanation, found: Contributions | None) -> None:
    from cgsa.report.explain import (
        BAND_HEADER,
        FAMILY_HEADER,
        PEAK_HEADER,
        SHOWN_PEAKS,
        band_rows,
        facts,
        family_row,
        kind_rows,
        peak_row,
    )

    out.print(f"{explanation.source}, {explanation.begin:.1f} to {explanation.end:.1f} s", soft_wrap=True, markup=False)
    for text in facts(explanation):
        out.print(text, soft_wrap=True, markup=False)
    for text in explanation.sentences:
        out.print(text, soft_wrap=True, markup=False, style="bold")
    # Lines and meaning do not fit into a terminal of 80 columns, and the sentences have them.
    rows = [family_row(one)[:5] for one in explanation.families]
    for header, cells, title in (
        (FAMILY_HEADER[:5], rows, "Families of lines"),
        (PEAK_HEADER, [peak_row(one) for one in explanation.peaks[:SHOWN_PEAKS]], "Lines that changed"),
        (BAND_HEADER, band_rows(explanation), "Bands that changed"),
    ):
        if cells:
            print_table(header, cells, title)
    if found is not None:
        print_table(("features or channel", f"contribution to {found.label}"), kind_rows(found), "What decided")


def _envelope(name: str) -> EnvelopeMethod:
    from typing import get_args

    from cgsa.errors import ConfigError
    from cgsa.explain.envelope import EnvelopeMethod

    known: tuple[EnvelopeMethod, ...] = get_args(EnvelopeMethod)
    for one in known:
        if one == name:
            return one
    raise ConfigError(f"--envelope {name}; expected one of {', '.join(known)}")


def _read(path: Path, model: ModelBundle, machine: Kinematics | None) -> Recording:
    """Read a file of any format with the channels to explain; what it does not state is taken from the model."""
    from cgsa.data.read_options import ReadOptions
    from cgsa.data.readers import open_signal
    from cgsa.workflow import read_for_model

    header = open_signal(path)
    chosen = _with_current(model.manifest.channels, header.channels, machine)
    written_by_cgsa = header.recording is not None
    options = ReadOptions() if written_by_cgsa or chosen == model.manifest.channels else ReadOptions(channels=chosen)
    found = read_for_model(path, model, options)
    for note in found.notes:
        print_note(f"{path}: {note}")
    return replace(found, source=str(path))


def _healthy(paths: Sequence[Path], model: ModelBundle, machine: Kinematics | None) -> Iterator[Recording]:
    """Read healthy recordings; of a data set, those of its healthy class."""
    from cgsa.data.dataset import DataSet
    from cgsa.data.dataset_file import is_data_set

    for path in paths:
        if is_data_set(path):
            yield from DataSet.load(path).healthy_recordings()
        else:
            yield _read(path, model, machine)


def explained_channels(recording: Recording, model: ModelBundle, machine: Kinematics | None) -> Recording:
    """Return the channels of the model, and the current in which the supply frequency is measured."""
    from cgsa.workflow import matching_channels

    return recording.select(_with_current(matching_channels(recording, model).channels, recording.channels, machine))


def _with_current(chosen: tuple[str, ...], available: Sequence[str], machine: Kinematics | None) -> tuple[str, ...]:
    """Return the chosen channels, and the current in which the supply frequency is measured, if it is available."""
    current = machine.motor.current if machine is not None and machine.motor is not None else None
    return chosen if current is None or current in chosen or current not in available else (*chosen, current)


def interval_of(whole: Recording, begin: float | None, end: float | None) -> Recording:
    """Return the samples between two times in seconds."""
    from cgsa.errors import DataError

    first = 0.0 if begin is None else begin
    last = whole.seconds if end is None else min(end, whole.seconds)
    if not 0 <= first < last:
        raise DataError(
            f"{whole.source}: no interval from {first:g} to {last:g} s; the recording has {whole.seconds:.3f} s"
        )
    return whole.cut(round(first * whole.sample_rate), min(whole.samples, round(last * whole.sample_rate)))


def _alarm_of(
    whole: Recording, model: ModelBundle, *, healthy_start: bool
) -> tuple[tuple[float | None, float | None], str | None]:
    """Diagnose the recording, and return the span of its first alarm with the fault; all of it without an alarm."""
    from itertools import groupby

    from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
    from cgsa.profile import Profile, profile_of
    from cgsa.workflow import diagnose, with_healthy_start

    config = DiagnosisConfig.from_profile(Profile.load(profile_of(model.manifest)))
    config = with_healthy_start(config) if healthy_start else config
    events = [batch.event for batch in diagnose(SignalDiagnoser(model, config), [whole])]
    for alarm, group in groupby(events, key=lambda event: event.alarm):
        if alarm is not None:
            span = list(group)
            return (span[0].begin, span[-1].end), alarm
    print_note("no alarm in this recording: all of it is explained; --from and --to choose an interval")
    return (None, None), None


def healthy_before(whole: Recording, current: Recording) -> list[Recording]:
    """Return what comes before the interval, if that is at least half as long: the machine's own healthy start."""
    if current.offset - whole.offset < current.samples // 2:
        return []
    return [replace(whole.cut(0, current.offset - whole.offset), source=f"{whole.source} before the interval")]


def _trained_on(model: ModelBundle, current: Recording) -> list[Recording]:
    """Return the healthy recordings of the training whose files are still there."""
    from cgsa.data.readers import read_recording

    found = []
    for source, begin, end in model.trained_on():
        if Path(source).is_file():
            recording = read_recording(source)
            if recording.label == model.manifest.classes[0] and end - recording.offset <= recording.samples:
                part = recording.select(current.channels).cut(begin - recording.offset, end - recording.offset)
                found.append(part)
    return found


def _contributions(
    model: ModelBundle, current: Recording, healthy: Sequence[Recording], label: str | None
) -> Contributions | None:
    """Return what the model decided by; None, and a note, where it cannot be told."""
    import torch

    from cgsa.data.windows import overlapping_windows
    from cgsa.explain.contributions import contributions
    from cgsa.explain.operation import nearest_healthy
    from cgsa.nn.change import ChangeModel
    from cgsa.nn.ensemble import Ensemble

    spec, names = model.manifest.window, model.manifest.channels
    near = [one.select(names) for one in nearest_healthy(current, healthy) if one.samples >= spec.length]
    if not isinstance(model.model, Ensemble | ChangeModel):
        print_note("what a network decides by is not a sum over features; train an ensemble to see it")
    elif current.samples < spec.length:
        print_note(f"the interval is shorter than a window of {spec.length} samples: contributions left out")
    else:
        step = max(1, spec.length // 2)
        cut = [
            overlapping_windows(torch.from_numpy(one.signal.copy()), spec.length, step)
            for one in (current.select(names), *near)
        ]
        known = label if label in model.manifest.classes[1:] else None
        # Copied, since windows of several recordings share no samples.
        return contributions(model, cut[0].clone(), torch.cat(cut[1:]) if near else None, known)
    return None
