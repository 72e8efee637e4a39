"""From recordings to a trained model, and from a model to diagnoses: what commands, benchmarks and programs call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypedDict

import torch

from cgsa.check.recordings import of_segments
from cgsa.check.run import require_trainable
from cgsa.config import bind, overlay
from cgsa.data.channel_levels import lowest_levels
from cgsa.data.equal_samples import usual_equal_samples
from cgsa.data.read_options import ReadOptions
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.scenario import Library, Scenario, check_no_leak
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.held_out import with_decisions
from cgsa.diagnosis.labelled import run_stream
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.live.signal_diagnoser import DiagnosedBatch, DiagnosisConfig, SignalDiagnoser
from cgsa.metrics.stream import StreamTrace
from cgsa.nn.bundle import MANIFEST, Manifest, ModelBundle
from cgsa.nn.change import CHANGED
from cgsa.offline import OBJECTIVES
from cgsa.offline.calibration import calibrate
from cgsa.offline.checkpoint import remove_checkpoint
from cgsa.offline.ensemble import train_ensemble
from cgsa.offline.healthy_only import choose_change_features, choose_change_window, train_healthy_only
from cgsa.offline.portfolio import choose_features, choose_window, training_speed
from cgsa.offline.run import ProgressCallback
from cgsa.offline.trainer import train_models
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod
from cgsa.profile import Profile, remember_profile

ENSEMBLE = "ensemble"
"""The objective that trains an ensemble instead of a network."""
HEALTHY_ONLY = "healthy_only"
"""The objective that trains a model of the healthy machine on healthy recordings alone."""
FEATURE_OBJECTIVES = frozenset({ENSEMBLE, HEALTHY_ONLY})
"""Objectives whose models read averaged spectra of windows that are as long as the recordings allow."""
HEALTHY_START = "healthy_start"
"""Setting of methods that ask if the machine is healthy when monitoring starts: the answer in advance."""


class _TrainingOptions(TypedDict):
    """Options that training and calibration share."""

    objective_settings: Mapping[str, object]
    device: torch.device
    checkpoints: Sequence[Path | None] | None
    report: ProgressCallback | None


def training_windows(
    scenario: Scenario,
    profile: Profile,
    library: Library,
    device: torch.device | str = "cpu",
    *,
    objective: str | None = None,
    inspect: Callable[[Sequence[Segment]], None] | None = None,
) -> Windows:
    """Cut the scenario's offline segments into training windows; ``objective`` is that of :func:`train`.

    ``inspect`` receives the segments as they were recorded, and may raise an error.
    """
    chosen = objective or profile.default_objective
    trained = scenario.healthy_only() if chosen == HEALTHY_ONLY else scenario
    segments = trained.training_segments(library, profile.train.assemblies)
    if inspect is not None:
        inspect(segments)
    segments = segments_for(chosen, segments)
    spec = training_spec(segments, profile, objective)
    return Windows(segments, spec, conditions=scenario.condition_names, device=device)


def inspect_segments(scenario: Scenario, segments: Sequence[Segment], advice: str) -> None:
    """Raise an error if a model trained on these segments would be worthless; ``advice`` tells how to train anyway."""
    require_trainable(of_segments(segments, scenario.classes), advice)


def segments_for(objective: str, segments: Sequence[Segment]) -> list[Segment]:
    """Return segments as a model with this objective reads them.

    A network would learn the offset of a sensor, so its recordings are centred if they state their mean. Averaged
    spectra do not depend on it, and the offset tells whether the sensor is mounted as in training.
    """
    return list(segments) if objective in FEATURE_OBJECTIVES else [segment.centred() for segment in segments]


def training_spec(segments: Sequence[Segment], profile: Profile, objective: str | None = None) -> WindowSpec:
    """Return the windows for a training on these segments."""
    chosen = objective or profile.default_objective
    if chosen not in FEATURE_OBJECTIVES:
        return WindowSpec(profile.window.length, profile.train.step)
    shortest = min(segment.recording.samples for segment in segments)
    spec = choose_window(profile.ensemble, segments[0].recording.sample_rate, shortest)
    return choose_change_window(spec) if chosen == HEALTHY_ONLY else spec


def train(
    scenario: Scenario,
    profile: Profile,
    windows: Windows,
    *,
    objective: str | None = None,
    seeds: Sequence[int] = (0,),
    checkpoints: Sequence[Path | None] | None = None,
    report: ProgressCallback | None = None,
) -> list[ModelBundle]:
    """Train one source model per seed.

    Parameters
    ----------
    scenario, profile
        What to train on, and how.
    windows
        From :func:`training_windows`.
    objective
        Name of the objective; None takes the profile's.
    seeds
        The models are trained side by side, each as if it were alone.
    checkpoints
        Folders from which an interrupted training resumes, one per seed.
    report
        Receives the progress.
    """
    chosen = objective or profile.default_objective
    ensemble = change = None
    sensor = (scenario.sample_rate, len(scenario.channels), windows.spec)
    if chosen == ENSEMBLE:
        ensemble = choose_features(*sensor, training_speed(scenario.conditions, windows.conditions))
    elif chosen == HEALTHY_ONLY:
        change = choose_change_features(*sensor)
    in_seconds = ensemble is not None or change is not None
    spec = windows.spec if in_seconds else profile.window
    manifest = Manifest(
        classes=scenario.classes if change is None else (scenario.healthy, CHANGED),
        channels=scenario.channels,
        units=windows.units,
        sample_rate=scenario.sample_rate,
        window=spec,
        conditions=profile.train.ranged(scenario.conditions),
        network=profile.network,
        ensemble=ensemble,
        change=change,
        scenario=scenario.name,
        objective=chosen,
        usual_equal_samples=usual_equal_samples((signal.cpu().numpy() for signal in windows.signals()), spec),
        lowest_levels=_lowest_levels(windows) if in_seconds else None,
    )
    manifests = [replace(manifest, seed=seed) for seed in seeds]
    if ensemble is not None:
        # No step of it is random, so one training serves all seeds.
        trained = train_ensemble(windows, manifest, report)
        manifest = with_decisions(trained.bundle.manifest, trained.judged, profile.decide)
        if manifest.assessment is not None:
            manifest = replace(manifest, assessment=manifest.assessment.with_specimens(scenario.specimens))
        return [replace(trained.bundle, manifest=replace(manifest, seed=seed)) for seed in seeds]
    if change is not None:
        healthy = train_healthy_only(windows, manifest, report)
        return [replace(healthy, manifest=replace(healthy.manifest, seed=seed)) for seed in seeds]
    options: _TrainingOptions = {
        "objective_settings": profile.objective_settings(chosen),
        "device": windows.device,
        "checkpoints": checkpoints,
        "report": report,
    }
    bundles = train_models(windows, manifests, profile.train, **options)
    return calibrate(bundles, windows, profile.train, **options) if profile.train.calibrate else bundles


def _lowest_levels(windows: Windows) -> tuple[float, ...]:
    return lowest_levels((signal.cpu().numpy() for signal in windows.signals()), windows.spec.length)


@dataclass(frozen=True, eq=False)
class TrainingSelection:
    """The best of several trained candidates."""

    bundle: ModelBundle
    accuracy: Mapping[str, float | None]
    """Accuracy of every candidate at held-out conditions, by its name; None if the profile asks for no calibration."""
    best: str
    """Name of the candidate that was kept."""


def train_candidates(
    scenario: Scenario,
    candidates: Mapping[str, Profile],
    library: Library,
    folder: Path,
    *,
    objective: str | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_candidate: Callable[[str, Windows], ProgressCallback | None] | None = None,
    inspect: Callable[[Sequence[Segment]], None] | None = None,
) -> TrainingSelection:
    """Train a model under each profile, and save the most accurate one at held-out conditions.

    An interrupted call resumes from checkpoints beside ``folder``.

    Parameters
    ----------
    scenario, library
        What to train on.
    candidates
        Profiles by name. Several of them need a calibration each, since it is what they are compared by.
    folder
        Where the bundle is saved.
    objective, seed, device
        As for :func:`train`.
    on_candidate
        Receives the name and training windows of each candidate in turn, and returns where to report its progress.
    inspect
        Receives the recorded segments before the first training, such as :func:`inspect_segments` does.
    """
    check_candidates(candidates, folder, objective)
    checkpoint = folder.with_name(f"{folder.name}.training")
    models: dict[str, ModelBundle] = {}
    for number, (name, profile) in enumerate(candidates.items(), start=1):
        first = inspect if number == 1 else None
        windows = training_windows(scenario, profile, library, device, objective=objective, inspect=first)
        report = on_candidate(name, windows) if on_candidate else None
        place = checkpoint if number == 1 else checkpoint / f"candidate_{number}"
        [models[name]] = train(
            scenario, profile, windows, objective=objective, seeds=[seed], checkpoints=[place], report=report
        )
    calibrations = {name: model.manifest.calibration for name, model in models.items()}
    accuracy = {name: None if found is None else found.held_out_accuracy for name, found in calibrations.items()}
    best = max(accuracy, key=lambda name: accuracy[name] or 0.0)
    chosen = candidates[best]
    bundle = remember_profile(models[best], chosen, objective or chosen.default_objective)
    bundle.save(folder)
    remove_checkpoint(checkpoint)
    return TrainingSelection(bundle, accuracy, best)


def check_candidates(candidates: Mapping[str, Profile], folder: Path, objective: str | None = None) -> None:
    """Fail if :func:`train_candidates` could not compare the candidates or save the best one."""
    for profile in candidates.values():
        chosen = objective or profile.default_objective
        if chosen in FEATURE_OBJECTIVES:
            continue
        bind(OBJECTIVES[chosen].Config, profile.objective_settings(chosen), f"objective {chosen}")
        if len(candidates) > 1 and not profile.train.calibrate:
            raise ConfigError(
                "candidates are compared at conditions held out of their training, which needs train.calibrate=true, "
                "as in profile robust"
            )
    if folder.exists() and not (folder / MANIFEST).exists():
        raise BundleError(f"{folder}: exists and is no bundle; choose another folder")


def stream_windows(
    bundle: ModelBundle,
    scenario: Scenario,
    fault: str,
    library: Library,
    *,
    specimen: int = 1,
    device: torch.device | str = "cpu",
) -> Windows:
    """Cut the scenario's online stream into windows for the bundle.

    Fails if the stream contains a raw sample that the bundle was trained on.
    """
    if bundle.manifest.classes != scenario.classes or bundle.manifest.channels != scenario.channels:
        raise ConfigError(
            f"the bundle knows {', '.join(bundle.manifest.classes)} on {len(bundle.manifest.channels)} channels; "
            f"scenario {scenario.name} has {', '.join(scenario.classes)} on {len(scenario.channels)}"
        )
    segments = segments_for(bundle.manifest.objective, scenario.stream_segments(library, fault, specimen=specimen))
    windows = Windows(segments, bundle.manifest.window, conditions=scenario.condition_names, device=device)
    check_no_leak(bundle.trained_on(), windows.intervals)
    return windows


def create_method(
    bundle: ModelBundle,
    method: str,
    profile: Profile,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    source: Windows | None = None,
    healthy_start: bool = False,
) -> OnlineMethod:
    """Return an online method at the start of a stream.

    ``source`` are training windows, for methods that need them. ``healthy_start`` is whether the stream is known to
    start with a healthy machine, as those of scenarios do; otherwise a method may ask.
    """
    known = {HEALTHY_START: True} if healthy_start and asks_about_start(method) else {}
    chosen = overlay(profile.method_settings(method), {**known, **(settings or {})})
    return METHODS[method](bundle, chosen, seed=seed, device=device, source=source)


def asks_about_start(method: str) -> bool:
    """Return whether a method may ask if the machine is healthy when monitoring starts."""
    return any(setting.name == HEALTHY_START for setting in fields(METHODS[method].Config))


def with_healthy_start(config: DiagnosisConfig) -> DiagnosisConfig:
    """Return settings that answer in advance that the machine is healthy when monitoring starts."""
    if not asks_about_start(config.method):
        raise ConfigError(f"method {config.method!r} does not ask about the start; leave the answer out")
    return replace(config, settings={**config.settings, HEALTHY_START: True})


def run_method(
    bundle: ModelBundle,
    windows: Windows,
    method: str,
    profile: Profile,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    source: Windows | None = None,
    known_conditions: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> StreamTrace:
    """Run a method on a labelled stream that starts healthy, and return its results beside the true labels.

    With ``known_conditions``, the method gets the operating conditions of every window.
    """
    created = create_method(
        bundle,
        method,
        profile,
        settings=settings,
        seed=seed,
        device=windows.device,
        source=source,
        healthy_start=True,
    )
    return run_stream(
        Diagnoser(created),
        windows,
        batch_size=profile.stream.batch_size,
        known_conditions=known_conditions,
        on_progress=on_progress,
    )


def diagnose(
    signal: SignalDiagnoser, recordings: Iterable[Recording], *, known_conditions: bool = False
) -> Iterator[DiagnosedBatch]:
    """Diagnose unlabelled recordings in the order in which they were made; the method keeps adapting across them.

    Batch numbers and times run on from recording to recording; no window spans two of them. With ``known_conditions``,
    the method gets the operating conditions of the recordings.
    """
    chunk = signal.config.batch_size * signal.bundle.manifest.window.step
    for recording in recordings:
        chosen = matching_channels(recording, signal.bundle)
        traces = matching_conditions(recording, signal.bundle) if known_conditions else {}
        signal.source = recording.source
        for begin in range(0, chosen.samples, chunk):
            part = slice(begin, begin + chunk)
            conditions = {name: trace[part] for name, trace in traces.items()}
            yield from signal.add(chosen.signal[:, part], conditions=conditions)
        # The windows that are left belong to this recording, whatever comes next.
        yield from signal.start_at(signal.now)


def read_for_model(path: Path, bundle: ModelBundle, options: ReadOptions) -> Recording:
    """Read a file of any format as the bundle needs it; what the file does not state comes from options or bundle."""
    manifest = bundle.manifest
    return options.read_for(
        path,
        sample_rate=manifest.sample_rate,
        channels=manifest.channels,
        units=manifest.units,
        conditions={condition.name: condition.unit for condition in manifest.conditions},
    )


def matching_channels(recording: Recording, bundle: ModelBundle) -> Recording:
    """Return the recording with the channels of the bundle, or fail with the difference."""
    manifest = bundle.manifest
    if recording.sample_rate != manifest.sample_rate:
        raise DataError(
            f"{recording.source}: {recording.sample_rate:g} Hz; the model was trained at {manifest.sample_rate:g} Hz"
        )
    chosen = recording.select(manifest.channels)
    units = zip(manifest.channels, chosen.units, manifest.units, strict=True)
    wrong = [f"{name} ({a}, not {b})" for name, a, b in units if a != b]
    if wrong:
        raise DataError(
            f"{recording.source}: units of {', '.join(wrong)} differ from those of the training; --units converts them"
        )
    return chosen


def matching_conditions(recording: Recording, bundle: ModelBundle) -> Mapping[str, FloatArray]:
    """Return the condition traces of a recording that the bundle knows, or fail if it has none of them."""
    names = [condition.name for condition in bundle.manifest.conditions]
    found = {name: trace for name, trace in recording.conditions.items() if name in names}
    if not found:
        has = ", ".join(recording.conditions) or "none"
        raise DataError(f"{recording.source}: has the conditions {has}; the model knows {', '.join(names)}")
    return found


def trained_on_part(recording: Recording, bundle: ModelBundle) -> bool:
    """Return whether the bundle was trained on samples of this recording."""
    begin, end = recording.offset, recording.offset + recording.samples
    return any(known == recording.source and max(begin, a) < min(end, b) for known, a, b in bundle.trained_on())
