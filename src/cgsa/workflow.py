"""The two halves of an experiment: train on a scenario's recordings, then meet its stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import torch

from cgsa.config import overlay
from cgsa.data.equal_samples import usual_equal_samples
from cgsa.data.scenario import Library, Scenario, check_no_leak
from cgsa.data.windows import Windows, WindowSpec
from cgsa.diagnosis.diagnoser import record
from cgsa.errors import ConfigError
from cgsa.metrics.stream import StreamTrace
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.offline.held_out import calibrate
from cgsa.offline.trainer import Report, train_together
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod
from cgsa.profile import Profile


class _How(TypedDict):
    """What training and calibration are told alike."""

    objective_settings: Mapping[str, object]
    device: torch.device
    checkpoints: Sequence[Path | None] | None
    report: Report | None


def training_windows(
    scenario: Scenario, profile: Profile, library: Library, device: torch.device | str = "cpu"
) -> Windows:
    """Cut the scenario's offline segments into training windows."""
    segments = scenario.training_segments(library)
    spec = WindowSpec(profile.window.length, profile.train.step)
    return Windows(segments, spec, conditions=scenario.condition_names, device=device)


def train(
    scenario: Scenario,
    profile: Profile,
    windows: Windows,
    *,
    objective: str = "cal",
    seed: int = 0,
    checkpoint: Path | None = None,
    report: Report | None = None,
) -> ModelBundle:
    """Train a source model on windows that :func:`training_windows` cut."""
    bundles = train_all(
        scenario, profile, windows, objective=objective, seeds=[seed], checkpoints=[checkpoint], report=report
    )
    return bundles[0]


def train_all(
    scenario: Scenario,
    profile: Profile,
    windows: Windows,
    *,
    objective: str,
    seeds: Sequence[int],
    checkpoints: Sequence[Path | None] | None = None,
    report: Report | None = None,
) -> list[ModelBundle]:
    """Train source models that differ in their seeds alone, beside each other."""
    manifest = Manifest(
        classes=scenario.classes,
        channels=scenario.channels,
        units=windows.units,
        sample_rate=scenario.sample_rate,
        window=profile.window,
        conditions=scenario.conditions,
        network=profile.network,
        scenario=scenario.name,
        objective=objective,
        usual_equal_samples=usual_equal_samples((signal.cpu().numpy() for signal in windows.signals()), profile.window),
    )
    manifests = [replace(manifest, seed=seed) for seed in seeds]
    how: _How = {
        "objective_settings": profile.objective_settings(objective),
        "device": windows.device,
        "checkpoints": checkpoints,
        "report": report,
    }
    bundles = train_together(windows, manifests, profile.train, **how)
    return calibrate(bundles, windows, profile.train, **how) if profile.train.calibrate else bundles


def stream_windows(
    bundle: ModelBundle,
    scenario: Scenario,
    fault: str,
    library: Library,
    *,
    specimen: int = 1,
    device: torch.device | str = "cpu",
) -> Windows:
    """Cut the scenario's online stream into the windows that the bundle takes.

    Fails where the stream holds a raw sample that the bundle was trained on.
    """
    if bundle.manifest.classes != scenario.classes or bundle.manifest.channels != scenario.channels:
        raise ConfigError(
            f"the bundle knows {', '.join(bundle.manifest.classes)} on {len(bundle.manifest.channels)} channels; "
            f"scenario {scenario.name} has {', '.join(scenario.classes)} on {len(scenario.channels)}"
        )
    segments = scenario.stream_segments(library, fault, specimen=specimen)
    windows = Windows(segments, bundle.manifest.window, conditions=scenario.condition_names, device=device)
    check_no_leak(bundle.trained_on(), windows.intervals)
    return windows


def start_method(
    bundle: ModelBundle,
    method: str,
    profile: Profile,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    source: Windows | None = None,
) -> OnlineMethod:
    """Set up a method before a stream; ``source`` are the training windows, for methods that need them."""
    chosen = overlay(profile.method_settings(method), settings or {})
    return METHODS[method](bundle, chosen, seed=seed, device=device, source=source)


def meet(
    bundle: ModelBundle,
    windows: Windows,
    method: str,
    profile: Profile,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    source: Windows | None = None,
    report: Callable[[int, int], None] | None = None,
) -> StreamTrace:
    """Let a method meet a labelled stream, and return what it said with the truth beside it."""
    ready = start_method(bundle, method, profile, settings=settings, seed=seed, device=windows.device, source=source)
    return record(ready, windows, batch_size=profile.stream.batch_size, report=report)
