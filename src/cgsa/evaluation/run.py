"""Running a model on the streams of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_selection import SelectedRecording
from cgsa.data.importing.choose import ImportChoices, choose_plan
from cgsa.data.importing.plan import ImportPlan
from cgsa.data.importing.steady import is_steady_state, states_rate
from cgsa.data.read_options import ReadOptions
from cgsa.decide.decision import DecisionMaker
from cgsa.errors import DataError
from cgsa.evaluation.decided import decide_stream
from cgsa.evaluation.results import Evaluation, StreamResult
from cgsa.evaluation.streams import EvaluationStream, evaluation_streams
from cgsa.metrics.detection import detection_delay, false_alarms, named_delay
from cgsa.metrics.reliability import Reliability
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile, profile_for
from cgsa.workflow import (
    read_for_model,
    train,
    trained_on_part,
    training_windows,
)

OnStream = Callable[[int, int, str], None]
"""Receives how many streams are done, how many there are, and the name of the last one."""


def evaluate(
    bundle: ModelBundle,
    data_set: DataSet,
    *,
    name: str = "",
    seed: int = 0,
    device: torch.device | str = "cpu",
    profile: Profile | None = None,
    on_stream: OnStream | None = None,
) -> Evaluation:
    """Return the results of a model on every recording of a data set.

    ``profile`` has the method and the decision; by default, those of the training of the model.
    """
    settings = profile or profile_for(bundle)
    used, notes = _known_to(bundle, data_set)
    streams = evaluation_streams(used, data_set.about.classes[0])
    report = on_stream or (lambda *_: None)
    results = []
    for number, stream in enumerate(streams, start=1):
        results.append(_run(bundle, data_set, stream, settings, seed=seed, device=device))
        report(number, len(streams), stream.judged.entry.file)
    return _evaluation(
        bundle, data_set, settings, results, name=name, notes=[*notes, *_borrowed(streams, data_set.about.classes[0])]
    )


def evaluate_leaving_out(
    bundle: ModelBundle,
    data_set: DataSet,
    *,
    name: str = "",
    seed: int = 0,
    device: torch.device | str = "cpu",
    profile: Profile | None = None,
    on_stream: OnStream | None = None,
) -> Evaluation:
    """Return the results of models that were trained as this one was, each without one of the operating conditions.

    With a single condition, specimens are left out instead.
    """
    settings, manifest = profile or profile_for(bundle), bundle.manifest
    used, notes = _known_to(bundle, data_set)
    streams = evaluation_streams(used, data_set.about.classes[0])
    key, kind = _rotated(used, data_set)
    parts = list(dict.fromkeys(key(one) for one in used))
    if kind != "condition":
        notes.append(f"there is only one operating condition; every {kind} was left out in turn instead")
    report = on_stream or (lambda *_: None)
    results: list[StreamResult] = []
    for part in parts:
        rest = data_set.for_testing([one for one in data_set.selected if key(one) == part])
        scenario = rest.scenario()
        windows = training_windows(scenario, settings, rest, device, objective=manifest.objective)
        [trained] = train(scenario, settings, windows, objective=manifest.objective, seeds=[seed])
        if trained.manifest.classes != manifest.classes:
            notes.append(f"without {part}, {len(scenario.classes)} classes remain; its recordings are left out")
            continue
        for stream in (one for one in streams if key(one.judged) == part):
            results.append(_run(trained, data_set, stream, settings, seed=seed, device=device))
            report(len(results), len(streams), stream.judged.entry.file)
    if not results:
        raise DataError(f"{data_set.folder}: no {kind} can be left out; expected every class at two of them at least")
    found = _evaluation(
        bundle, data_set, settings, results, name=name, notes=[*notes, *_borrowed(streams, data_set.about.classes[0])]
    )
    return replace(found, left_out=True)


def plan_for_model(folder: Path, bundle: ModelBundle, options: ReadOptions, choices: ImportChoices) -> ImportPlan:
    """Return the plan for a folder of labelled files, to be read as the bundle needs.

    What the files do not state, such as their sample rate, is that of the bundle.
    """
    manifest = bundle.manifest
    steady = is_steady_state(folder) and states_rate(folder)
    rate = options.sample_rate or (None if steady else manifest.sample_rate)
    given = replace(options, sample_rate=rate)
    plan = choose_plan(folder, given, replace(choices, use_suggestion=True))
    if is_steady_state(folder):
        return plan
    return replace(plan, read=lambda found: read_for_model(found.path, bundle, options))


def _known_to(bundle: ModelBundle, data_set: DataSet) -> tuple[list[SelectedRecording], list[str]]:
    """Return the recordings whose class a model knows, and what is said about the others."""
    manifest, healthy = bundle.manifest, data_set.about.classes[0]
    if manifest.change is None and healthy != manifest.classes[0]:
        raise DataError(
            f"{data_set.folder}: its healthy class is {healthy!r}, that of the model {manifest.classes[0]!r}; rename it"
        )
    if manifest.change is not None:
        return list(data_set.selected), []
    used = [one for one in data_set.selected if one.entry.label in manifest.classes]
    unknown = sorted({one.entry.label for one in data_set.selected} - {*manifest.classes})
    notes = [f"{', '.join(unknown)}: unknown to the model, which knows {', '.join(manifest.classes)}; left out"]
    if not used:
        raise DataError(f"{data_set.folder}: {notes[0]}, so that nothing remains")
    return used, notes if unknown else []


def _rotated(used: Sequence[SelectedRecording], data_set: DataSet) -> tuple[Callable[[SelectedRecording], str], str]:
    """Return what is left out in turn: the operating condition, or the specimen if there is only one condition."""
    if len({one.point for one in used}) > 1:
        return lambda one: one.point, "condition"
    kind = data_set.about.specimen_kind
    if len({one.specimen for one in used}) > 1:
        return lambda one: f"{kind} {one.specimen}", kind
    raise DataError(
        f"{data_set.folder}: one operating condition of one machine; nothing can be left out, so record a second one"
    )


def _borrowed(streams: Sequence[EvaluationStream], healthy: str) -> Iterator[str]:
    """Yield what is said about faults without a healthy recording at their condition."""
    count = sum(stream.at_other_condition for stream in streams)
    if count:
        yield f"{count} faults have no healthy recording at their condition: the nearest one precedes them"
    alone = sum(stream.before is None and stream.judged.entry.label != healthy for stream in streams)
    if alone:
        yield f"{alone} faults have no healthy recording before them: there is none at all, so no reference was taken"


def _run(
    bundle: ModelBundle,
    data_set: DataSet,
    stream: EvaluationStream,
    profile: Profile,
    *,
    seed: int,
    device: torch.device | str,
) -> StreamResult:
    manifest = bundle.manifest
    healthy = data_set.about.classes[0]
    recordings = [data_set.read(part.entry) for part in stream.parts]
    labels = [_label(bundle, part.entry.label, healthy) for part in stream.parts]
    decided = decide_stream(
        bundle, recordings, profile, labels=labels, healthy_start=labels[0] == 0, seed=seed, device=device
    )
    trace, state, alarm, judged = decided.trace, decided.state, decided.alarm, decided.part == len(labels) - 1
    step, whole = manifest.window.step / manifest.sample_rate, manifest.window.length / manifest.sample_rate
    delay, named = (find(alarm, trace.label, step) for find in (detection_delay, named_delay))
    label = labels[-1]
    return StreamResult(
        recording=stream.judged.entry.file,
        before=None if stream.before is None else stream.before.entry.file,
        point=stream.judged.point,
        truth=stream.judged.entry.label,
        label=label,
        trained=trained_on_part(recordings[-1], bundle),
        windows=_counts(trace.prediction[judged], len(manifest.classes)),
        verdicts=_counts(state[judged], len(decided.states)),
        reliability=Reliability.of(decided.chance[judged], trace.correct[judged]),
        seconds=recordings[-1].seconds,
        alarm=decided.states[int(alarm[-1])] if alarm[-1] else None,
        # The first window of a fault ends a whole window after the onset.
        delay=None if delay is None else delay + whole,
        named_delay=None if named is None else named + whole,
        false_alarms=false_alarms(alarm, trace.label) if label == 0 else 0,
    )


def _label(bundle: ModelBundle, name: str, healthy: str) -> int:
    """Return the class that the model should name; a model of the healthy machine says that it changed."""
    if bundle.manifest.change is not None:
        return int(name != healthy)
    return bundle.manifest.classes.index(name)


def _counts(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]], many: int) -> tuple[int, ...]:
    return tuple(np.bincount(values, minlength=many).tolist())


def _evaluation(
    bundle: ModelBundle,
    data_set: DataSet,
    profile: Profile,
    results: Sequence[StreamResult],
    *,
    name: str,
    notes: Sequence[str],
) -> Evaluation:
    manifest = bundle.manifest
    return Evaluation(
        model=name,
        data=str(data_set.folder),
        method=profile.default_method,
        classes=manifest.classes,
        states=DecisionMaker(profile.decide, manifest).states,
        streams=tuple(results),
        notes=tuple(dict.fromkeys(notes)),
    )
