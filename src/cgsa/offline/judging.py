"""How the held-out parts of a training are judged: as streams, by a model that never saw them.

A stream has the windows of one specimen at one operating point, the healthy ones
first. As when monitoring starts, the first of them are the healthy reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.data.levels import span_name
from cgsa.data.scenario import Condition
from cgsa.nn.assessment import LATEST, SPECIMEN, HeldOutResult, LevelSpan
from cgsa.nn.bundle import Manifest
from cgsa.nn.ensemble import combine
from cgsa.nn.own_start import OwnStart
from cgsa.nn.reference_shift import needed_shift
from cgsa.offline.folds import condition_levels
from cgsa.offline.held_out import HeldOut, TrainingFeatures
from cgsa.offline.parts import Part
from cgsa.offline.references import HEALTHY

REFERENCE_SECONDS, REFERENCE_WINDOWS = 1.0, 4
"""How long a healthy start is observed, and its least number of windows."""


@dataclass(frozen=True, eq=False)
class JudgedStream:
    """Held-out windows of one specimen at one operating point, in the order of the recordings, healthy ones first."""

    probabilities: Tensor
    """(windows, classes)"""
    distance: Tensor
    change: Tensor
    """Distance from the healthy reference, relative to the limit for healthy machines; 0 without a reference."""
    labels: Tensor
    reference: int
    """How many of the first windows are the healthy reference; 0 if the machine was never recorded when healthy."""
    step: int
    """Samples from one window to the next within a recording; the windows of a training are a selection."""


@dataclass(frozen=True, eq=False)
class JudgedPart:
    """All streams of a held-out part."""

    result: HeldOutResult
    streams: Sequence[JudgedStream]


@torch.no_grad()
def judge_parts(
    held_out: Sequence[HeldOut],
    pools: Sequence[Tensor],
    features: TrainingFeatures,
    distance: Tensor,
    manifest: Manifest,
    *,
    own_start: OwnStart | None = None,
) -> list[JudgedPart]:
    """Judge every part that was held out with its weights of the members, which know nothing of it either.

    ``distance`` is that of every training window from what is known where it was held out. ``own_start`` has the limits
    for the comparison with a healthy start.
    """
    points = operating_points(features)
    judged = []
    for one, pool in zip(held_out, pools, strict=True):
        streams = [
            _stream(own, pool.to(one.scores), distance[own.index], manifest, own_start)
            for own in specimen_streams(one, points[one.index])
        ]
        judged.append(_judge(one, streams, manifest))
    return judged


@torch.no_grad()
def faults_from_start(held_out: Sequence[HeldOut], features: TrainingFeatures, manifest: Manifest) -> list[Tensor]:
    """Return how far the faults of every stream are from its healthy start: logarithms, one tensor per recording."""
    points, found = operating_points(features), []
    for one in held_out:
        for own in specimen_streams(one, points[one.index]):
            if reference := reference_windows(own, manifest):
                distance, faulty = own.starts.from_first(reference), own.recordings[own.labels != HEALTHY]
                found += [distance[own.recordings == recording] for recording in torch.unique(faulty).tolist()]
    return found


def specimen_streams(one: HeldOut, points: Tensor) -> Iterator[HeldOut]:
    """Yield the windows of every specimen at every operating point, healthy ones first."""
    groups = torch.unique(torch.stack([one.windows.machines, points], dim=1), dim=0, return_inverse=True)[1]
    for group in range(int(groups.max()) + 1):
        index = (groups == group).nonzero().squeeze(1)
        yield one.subset(index[(one.labels[index] != HEALTHY).long().argsort(stable=True)])


def reference_windows(own: HeldOut, manifest: Manifest) -> int:
    """Return how many of the first windows of a stream are its healthy reference; 0 if it was never healthy."""
    healthy = int((own.labels == HEALTHY).sum())
    step = _step(own.windows, manifest)
    wanted = max(REFERENCE_WINDOWS, round(REFERENCE_SECONDS * manifest.sample_rate / step))
    # Of a short recording, some healthy windows must be left to be judged.
    return min(wanted, -(-healthy // 2))


def operating_points(features: TrainingFeatures) -> Tensor:
    """Return the number of the combination of levels of every window."""
    levels = [condition_levels(column.contiguous()) for column in features.conditions.unbind(dim=1)]
    if not levels:
        return torch.zeros_like(features.labels)
    numbers: Tensor = torch.unique(torch.stack(levels, dim=1), dim=0, return_inverse=True)[1]
    return numbers


def part_name(part: Part, conditions: Sequence[Condition]) -> str:
    """Return a part in words, such as ``speed 1200 rpm``."""
    if part.kind == LATEST:
        return "last quarter of every recording"
    if part.kind == SPECIMEN:
        return f"specimen {part.specimen}"
    return ", ".join(span_name(conditions[index], low, high) for index, low, high in part.levels)


def count_states(labels: Tensor, states: Tensor, *, classes: int, many: int) -> tuple[tuple[int, ...], ...]:
    """Return the number of windows by class and by one of ``many`` states."""
    counts = torch.bincount(labels * many + states, minlength=classes * many).reshape(classes, many)
    return tuple(tuple(row) for row in counts.tolist())


def _judge(one: HeldOut, streams: Sequence[JudgedStream], manifest: Manifest) -> JudgedPart:
    labels = torch.cat([stream.labels for stream in streams])
    predicted = torch.cat([stream.probabilities.argmax(dim=1) for stream in streams])
    classes, part = len(manifest.classes), one.part
    result = HeldOutResult(
        part.kind,
        part_name(part, manifest.conditions),
        count_states(labels, predicted, classes=classes, many=classes),
        spans=tuple(LevelSpan(*level) for level in part.levels),
        outermost=part.outermost,
        one_of_two=part.one_of_two,
    )
    return JudgedPart(result, streams)


def _stream(
    own: HeldOut, pool: Tensor, distance: Tensor, manifest: Manifest, own_start: OwnStart | None
) -> JudgedStream:
    step, reference = _step(own.windows, manifest), reference_windows(own, manifest)
    scores = own.scores
    if reference:
        scores = scores - needed_shift(scores[:reference], own.healthy, pool)
    probabilities, change = torch.softmax(combine(scores, pool), dim=1), torch.zeros_like(distance)
    if reference and own_start is not None:
        from_start = own.starts.from_first(reference)
        probabilities, change = own_start.probabilities(probabilities, from_start), own_start.change(from_start)
    return JudgedStream(probabilities, distance, change, own.labels, reference, step)


def _step(windows: TrainingFeatures, manifest: Manifest) -> int:
    """Return the median of the samples from one window to the next of the same recording."""
    length, least = manifest.window.length, manifest.window.step
    begin, end = windows.spans.unbind(dim=1)
    samples = begin / (end - begin) * length
    same = windows.recordings.diff() == 0
    steps = samples.diff()[same]
    return max(least, round(float(steps.median()))) if len(steps) else length
