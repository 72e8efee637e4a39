"""The parity gate: an export is refused if it differs from torch.

Torch runs in double precision for the comparison, as the graphs do, so that a difference is one of the mathematics. How
far the model in single precision, as a watch runs it, is from both is measured and reported beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cgsa.data.recording import FloatArray
from cgsa.edge.reference_model import Doubles, FrozenOutput, StartOutput, TorchModel
from cgsa.edge.runner.decision import sigmoid, softmax
from cgsa.edge.runner.methods import combined
from cgsa.edge.runner.own_start import StartComparison
from cgsa.edge.runner.package import EdgePackage
from cgsa.errors import BundleError, DataError
from cgsa.nn.bundle import ModelBundle

LIMIT = 1e-5
"""Largest difference of a probability, and largest relative difference of a distance, that is accepted."""
WINDOWS = 16
"""Windows per signal that are compared."""
LOUDNESS = (1e-3, 0.1, 1.0, 10.0)
"""Levels of the synthetic signals, relative to the training."""


@dataclass(frozen=True)
class ParityReport:
    """The largest differences between torch and the exported model."""

    windows: int
    """Windows that were compared."""
    recorded: bool
    """Whether they are from recordings, and not synthetic."""
    probability: float
    """Of a probability, with or without a start of the machine, from torch in double precision."""
    distance: float
    """Of the distance from the training or from a start, relative, from torch in double precision."""
    single: float
    """Of a probability without a start, from torch in single precision, as a watch runs it."""
    verdicts: int
    """Windows whose class differs from that of torch in single precision."""


def check_parity(bundle: ModelBundle, folder: Path, signals: Iterable[FloatArray] | None = None) -> ParityReport:
    """Compare torch with the files in a folder, or say by how much they differ."""
    package, length = EdgePackage(folder), bundle.manifest.window.length
    double, single = TorchModel(bundle, torch.float64), TorchModel(bundle, torch.float32)
    windows = verdicts = 0
    probability = distance = rounding = 0.0
    for signal in synthetic_signals(bundle) if signals is None else signals:
        samples = _compared(signal, bundle)
        if samples.shape[1] < length:
            raise DataError(f"a signal of {samples.shape[1]} samples to check; expected at least {length}, one window")
        found, expected, rounded = _exported(package, samples), double(samples), single(samples)
        windows += len(found.probabilities)
        # NaN must fail, so it counts as infinite.
        probability = max(probability, _largest(found.probabilities - expected.probabilities))
        distance = max(distance, _largest(found.distance / expected.distance - 1))
        if found.from_start is not None and expected.from_start is not None:
            probability = max(probability, _largest(found.from_start.probabilities - expected.from_start.probabilities))
            distance = max(distance, _largest(found.from_start.change / expected.from_start.change - 1))
        rounding = max(rounding, _largest(found.probabilities - rounded.probabilities))
        verdicts += int((found.probabilities.argmax(axis=1) != rounded.probabilities.argmax(axis=1)).sum())
    report = ParityReport(windows, signals is not None, probability, distance, rounding, verdicts)
    if not windows:
        raise DataError("no signal to check the export with; expected at least one")
    if max(probability, distance) > LIMIT:
        raise BundleError(
            f"the exported model differs from torch by {probability:.1e} in a probability and by {distance:.1e} in a "
            f"distance, on {windows} windows; expected at most {LIMIT:g}, so nothing was written"
        )
    return report


def synthetic_signals(bundle: ModelBundle) -> Iterator[FloatArray]:
    """Yield signals around the statistics of the training: noise, tones, impacts, quiet, loud, dead and equal ones."""
    manifest = bundle.manifest
    samples = manifest.window.length + (WINDOWS - 1) * manifest.window.step
    mean, deviation = (bundle.channel_scaling.get_buffer(name).cpu().double().numpy() for name in ("mean", "deviation"))
    channels, rng = len(mean), np.random.default_rng(0)
    time = np.arange(samples)
    mixture = np.eye(channels) + 0.5 * rng.standard_normal((channels, channels))
    noise = mixture @ rng.standard_normal((channels, samples))
    lines = rng.uniform(0.002, 0.45, (channels, 4, 1))
    tones = np.sin(2 * np.pi * lines * time + rng.uniform(0, 6, (channels, 4, 1))).sum(axis=1)
    impacts = np.where(rng.random((channels, samples)) < 0.002, 20.0, 0.0)
    dead, alike = noise.copy(), np.repeat(noise[:1], channels, axis=0)
    dead[0] = 0
    for shape in (noise, tones + 0.1 * noise, impacts + 0.1 * noise, tones + 1e-4 * noise, dead, alike):
        for loudness in LOUDNESS:
            yield (mean + loudness * deviation * shape).astype(np.float32)


def _compared(signal: FloatArray, bundle: ModelBundle) -> FloatArray:
    """Return the beginning of a signal, as long as is compared."""
    window = bundle.manifest.window
    return np.ascontiguousarray(signal[:, : window.length + (WINDOWS - 1) * window.step], dtype=np.float32)


def _exported(package: EdgePackage, samples: FloatArray) -> FrozenOutput:
    """Return the output of the exported model."""
    model, inputs = package.description["model"], package.features(samples)
    features = inputs["features"]
    if package.kind == "change":
        outputs = package.outputs(**inputs, references=features.mean(axis=0, keepdims=True))
        general, own = (_changes(outputs[name], model, view) for view, name in enumerate(("general", "own")))
        return FrozenOutput(general.probabilities, np.ones(len(features)), own)
    if package.kind == "network":
        outputs = package.outputs(features=features - np.array(model.get("reference", 0.0)))
        found = softmax(outputs["scores"])
        return FrozenOutput(found, outputs.get("distance", np.ones(len(found))))
    outputs = package.outputs(**inputs)
    found = softmax(combined(outputs["scores"], model))
    return FrozenOutput(found, outputs.get("distance", np.ones(len(found))), _from_start(package, features, found))


def _from_start(package: EdgePackage, features: Doubles, probabilities: Doubles) -> StartOutput | None:
    comparison = StartComparison(package)
    rows = comparison.rows(features)
    comparison.keep(rows)
    compared, change = comparison.compare(probabilities, rows)
    return None if change is None else StartOutput(compared, change)


def _changes(log_distance: Doubles, model: Mapping[str, Any], view: int) -> StartOutput:
    """Return what a model of the healthy machine says in one of its views."""
    score = log_distance.reshape(-1) - model["limits"][view]
    changed = sigmoid(score / model["widths"][view] * model["log_odds"])
    return StartOutput(np.stack([1 - changed, changed], axis=1), np.exp(score))


def _largest(differences: Doubles) -> float:
    size = np.abs(differences)
    return float(np.where(np.isnan(size), np.inf, size).max())
