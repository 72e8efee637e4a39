"""What is measured on a trained model before it is handed out, on some of its training windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cgsa.data.windows import Windows, WindowSpec, overlapping_windows
from cgsa.nn.bundle import Manifest
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.deviation import QUEUE, TAU, UsualDeviation
from cgsa.nn.mlp import DiagnosisNet

CHANCE_MARGIN = 0.1
"""A final training accuracy this close to guessing is reported as a failed training."""
MAX_WINDOWS = 4096
"""Training windows, evenly spaced, on which a finished model is measured."""
DEAD_RESPONSE = 1e-3
"""A response with a smaller deviation over the training windows carries no information; the paper's threshold is
0.05."""
STRETCH = 4 * QUEUE
"""Successive windows of a training recording along which the response is followed."""
MAX_STRETCHES, STRETCHES_PER_EPOCH = 64, 8
"""Stretches, evenly spaced over all recordings, that a finished model and a model in training are measured on."""
FAR_BELOW = 0.01
"""If a smaller share of the training windows deviates by tau or more, tau is not on the scale of the response."""


def evenly_spaced(count: int, at_most: int, device: torch.device) -> Tensor:
    """Return indices of at most ``at_most`` of ``count`` items, evenly spaced."""
    return torch.linspace(0, count - 1, min(count, at_most), device=device).long()


def sample_windows(windows: Windows) -> Tensor:
    """Return some windows, evenly spaced over all."""
    return windows.gather(evenly_spaced(len(windows), MAX_WINDOWS, windows.device))


@torch.no_grad()
def inspect_model(
    manifest: Manifest,
    network: DiagnosisNet,
    discriminator: ConditionDiscriminator | None,
    windows: Windows,
    history: Sequence[Mapping[str, float | str]],
) -> Manifest:
    """Return the manifest with the model's usual confidence and responses, and notes on a training that failed."""
    features = network.features(sample_windows(windows))
    confidence = torch.softmax(network.classify(features), dim=1).amax(dim=1)
    notes = [*manifest.notes, *_note_failed_training(history, manifest)]
    usual_responses = usual_deviation = None
    if discriminator is not None:
        response = discriminator.response(features)
        usual_deviation = measure_deviation(network, discriminator, windows, manifest.window, MAX_STRETCHES)
        dead = _note_dead_responses(response, manifest)
        notes += dead or _note_steady_response(usual_deviation)
        bounds = torch.quantile(response, torch.tensor([0.005, 0.995]).to(response), dim=0)
        usual_responses = tuple((low, high) for low, high in bounds.T.tolist())
    return replace(
        manifest,
        usual_confidence=float(torch.quantile(confidence, 0.05)),
        usual_responses=usual_responses,
        usual_deviation=usual_deviation,
        notes=tuple(notes),
    )


@torch.no_grad()
def measure_deviation(
    network: DiagnosisNet,
    discriminator: ConditionDiscriminator,
    windows: Windows,
    spec: WindowSpec,
    stretches: int,
) -> UsualDeviation | None:
    """Return how the response deviates along at most this many stretches of the training recordings.

    The recordings are cut as a stream is, by ``spec``. Both modules are measured as they will be used, and are in the
    mode of before afterwards.
    """
    modules = [one for module in (network, discriminator) for one in module.modules() if one.training]
    for one in modules:
        one.training = False
    found = [
        discriminator.response(network.features(stretch)) for stretch in _stretches(windows, spec, at_most=stretches)
    ]
    for one in modules:
        one.training = True
    return UsualDeviation.measure(found)


def _stretches(windows: Windows, spec: WindowSpec, at_most: int) -> list[Tensor]:
    """Return stretches of successive windows, evenly spaced over all recordings; a short recording is one stretch."""
    every = [
        stretch
        for signal in windows.signals()
        for stretch in torch.split(overlapping_windows(signal, spec.length, spec.step), STRETCH)
    ]
    long_enough = [one for one in every if len(one) == STRETCH] or [one for one in every if len(one) > QUEUE]
    return [long_enough[place] for place in evenly_spaced(len(long_enough), at_most, torch.device("cpu")).tolist()]


def epoch_deviation(
    network: DiagnosisNet, discriminator: ConditionDiscriminator, windows: Windows, spec: WindowSpec
) -> dict[str, float]:
    """Return what is logged after an epoch: the spread of the response and how its deviation compares with tau."""
    found = measure_deviation(network, discriminator, windows, spec, STRETCHES_PER_EPOCH)
    if found is None:
        return {}
    return {
        "response_spread": min(found.spread),
        "median_deviation": found.at(0.5),
        "beyond_tau": found.share_beyond(TAU),
    }


def _note_failed_training(history: Sequence[Mapping[str, float | str]], manifest: Manifest) -> list[str]:
    accuracy = next((float(row["accuracy"]) for row in reversed(history) if "accuracy" in row), 1.0)
    chance = 1.0 / len(manifest.classes)
    if accuracy > chance + CHANCE_MARGIN:
        return []
    note = (
        f"training failed: final training accuracy {accuracy:.3f} is near chance ({chance:.3f}); "
        f"try another seed, a lower learning rate or a smaller gamma"
    )
    return [note]


def _note_dead_responses(response: Tensor, manifest: Manifest) -> list[str]:
    """Return a note per condition whose discriminator is dead: it carries no information and rejects no window."""
    notes = []
    for condition, spread in zip(manifest.conditions, response.std(dim=0).tolist(), strict=True):
        if spread < DEAD_RESPONSE:
            to, by = (f" to {condition.name}", " by it") if len(manifest.conditions) > 1 else ("", "")
            notes.append(
                f"the discriminator is dead: over the training windows its response{to} deviates by {spread:.1g}, so "
                f"residual condition guidance will reject nothing{by}; try another seed or a lower learning rate"
            )
    return notes


def _note_steady_response(found: UsualDeviation | None) -> list[str]:
    """Return a note if the response varies far less than tau, so that the residual criterion does nothing."""
    if found is None or found.share_beyond(TAU) >= FAR_BELOW:
        return []
    note = (
        f"the residual response hardly moves: {found.describe()}; set method.cgsa.tau=auto, or train with a weaker "
        f"adversary (objective.cal.adversary_weight)"
    )
    return [note]
