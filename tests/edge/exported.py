"""Exported toy models, and the events of a watch and of the runner for the same signals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cgsa.data.recording import FloatArray, Recording
from cgsa.edge.package import export_package
from cgsa.edge.runner.machine import EdgeMachine
from cgsa.edge.runner.package import EdgePackage
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile, profile_of
from cgsa.workflow import asks_about_start, diagnose, with_healthy_start
from tests.machines import RATE

Events = list[dict[str, Any]]


def settings_of(model: ModelBundle, method: str | None = None, **settings: object) -> DiagnosisConfig:
    """The settings of ``cgsa watch`` for a toy model: its windows are short, so that a start has few of them."""
    config = DiagnosisConfig.from_profile(Profile.load(profile_of(model.manifest)), method)
    return replace(config, settings={**config.settings, **settings})


def export(model: ModelBundle, config: DiagnosisConfig, folder: Path) -> EdgePackage:
    export_package(model, config, folder)
    return EdgePackage(folder)


def watched(model: ModelBundle, config: DiagnosisConfig, signals: Sequence[FloatArray], *, healthy: bool) -> Events:
    """Return the events of ``cgsa watch`` for recordings with these samples."""
    chosen = with_healthy_start(config) if healthy and asks_about_start(config.method) else config
    recordings = [
        Recording(signal, RATE, ("a", "b"), ("g", "g"), source=str(number)) for number, signal in enumerate(signals)
    ]
    found = diagnose(SignalDiagnoser(model, chosen), recordings)
    return [json.loads(batch.event.to_json()) for batch in found]


def run_on_edge(package: EdgePackage, signals: Sequence[FloatArray], *, healthy: bool) -> Events:
    """Return the events of the runner for the same."""
    machine = EdgeMachine(package, healthy_start=healthy)
    events: Events = []
    for number, signal in enumerate(signals):
        machine.source = str(number)
        events += [*machine.add(signal), *machine.end()]
    return [json.loads(json.dumps(event)) for event in events]


def differences(expected: object, found: object, where: str = "", *, tolerance: float = 1e-3) -> list[str]:
    """Return in which fields of ``found`` it differs from ``expected``, which may have more of them."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        return [one for name in found for one in differences(expected[name], found[name], f"{where}/{name}")]
    if isinstance(found, float) and isinstance(expected, float):
        close = abs(found - expected) <= tolerance * max(1.0, abs(expected))
        return [] if close else [f"{where}: {expected} {found}"]
    return [] if expected == found else [f"{where}: {expected} {found}"]
