"""What a model is worth at a condition that it has not seen.

The stream will bring conditions that training did not hold, so the training
data themselves can say little of how sure to be there. But they hold several
conditions: a model that is trained without one of them meets it as the real
model will meet the stream's. What such models got right there, how sure they
were, and how far these windows lay from what they knew, is the calibration of
the model that is trained on all. No stream is looked at.

Where there are several conditions, the levels of each are left out in turn.
What was recorded last is left out once, too: a model may fail at a condition
that it has seen, and only because time has passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from cgsa.data.windows import Windows
from cgsa.errors import DataError
from cgsa.nn.bundle import Calibration, ModelBundle
from cgsa.nn.joined import LENGTHS, joined_mean
from cgsa.nn.known import KnownSpace
from cgsa.offline.references import HEALTHY, References
from cgsa.offline.trainer import Progress, Report, TrainConfig, train_together

APART = 0.01
"""A gap of this share of the range parts two levels."""
MOST_LEVELS = 12
"""More than these are a continuous change, seen at few places."""
TIGHT = 0.05
"""What spreads over more of the range is no level that was held but a part of a continuous change."""
FIFTHS = 5
"""Into so many parts of its range a continuous change is cut."""
LAST = 0.25
"""Share of every segment that is left out once, to see what time alone does."""
KNOWN_SHARE = 0.99
"""Share of the windows at a left-out condition that must count as known."""
REACH = 0.5
"""A level farther beyond the others than this share of their range tells of no stream that anybody would watch."""
TRIES = 4
"""References that every segment is seen with."""
SOME_WINDOWS = 8192
"""Windows, evenly spread, by which a model is judged; neighbours overlap, so more say little."""
TEMPERATURES = torch.logspace(-1, 1, 81, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Level:
    """Windows to be left out together: they have one of the conditions in common, or were recorded last."""

    name: str
    """Such as ``level 1 of 3``."""
    members: Tensor
    """Which windows they are."""
    rest: Tensor
    """Which windows have nothing of them."""
    between: bool = False
    """Whether there are levels on both sides of it."""
    near: bool = False
    """Whether it lies within reach of the others."""
    later: bool = False
    """Whether it is no level but what was recorded last."""


@dataclass(frozen=True, eq=False)
class _Meeting:
    """Windows at a level, as a model sees them that was trained without it."""

    level: Level
    scores: Tensor
    labels: Tensor
    distance: Tensor
    """Joined as it will be online."""


def calibrate(
    bundles: Sequence[ModelBundle],
    windows: Windows,
    config: TrainConfig,
    *,
    objective_settings: Mapping[str, object] | None = None,
    device: torch.device | str = "cpu",
    checkpoints: Sequence[Path | None] | None = None,
    report: Report | None = None,
) -> list[ModelBundle]:
    """Return trained models with their calibration; takes one training more than there are levels."""
    levels = find_levels(windows, [condition.name for condition in bundles[0].manifest.conditions])
    if not levels:
        raise DataError(
            "all training windows have one condition; to know what a model is worth at another, training must hold "
            "at least two (or leave calibrate off)"
        )
    folders = checkpoints or [None] * len(bundles)
    met: list[list[_Meeting]] = [[] for _ in bundles]
    for number, level in enumerate([*levels, recorded_last(windows)]):
        inside, outside = windows.subset(level.rest), windows.subset(level.members)
        if bundles[0].network.reference is not None:
            inside, outside = _with_references(inside, outside)
        if not len(outside) or _classes(inside) < _classes(windows):
            continue
        models = train_together(
            inside,
            [replace(bundle.manifest, discriminator=None, notes=()) for bundle in bundles],
            config,
            objective_settings=objective_settings,
            device=device,
            checkpoints=[None if folder is None else folder / f"without_{number}" for folder in folders],
            report=_named(report, f"without {level.name}"),
        )
        for found, model in zip(met, models, strict=True):
            found.append(_meet(model, level, inside, outside, config))
    if all(meeting.level.later for meeting in met[0]):
        raise DataError(
            "no level of the condition can be left out: the rest must hold all classes, and, for a network with a "
            "reference, some machine must be healthy both there and in the rest (or leave calibrate off)"
        )
    return [_finished(bundle, found, windows, config) for bundle, found in zip(bundles, met, strict=True)]


def _classes(windows: Windows) -> set[int]:
    return set(windows.labels.tolist())


def _with_references(inside: Windows, outside: Windows) -> tuple[Windows, Windows]:
    """Return what both hold of the machines that were healthy in both: of others there is no reference to take."""
    healthy = [set(windows.machines[windows.labels == HEALTHY].tolist()) for windows in (inside, outside)]
    machines = torch.tensor(sorted(healthy[0] & healthy[1]), dtype=torch.long, device=inside.device)
    found_inside, found_outside = (
        windows.subset(torch.isin(windows.machines, machines)) for windows in (inside, outside)
    )
    return found_inside, found_outside


def find_levels(windows: Windows, conditions: Sequence[str]) -> list[Level]:
    """Return all that can be left out: every level of each condition that has more than one."""
    if windows.conditions is None:
        raise DataError("calibration leaves out conditions, and these windows have none")
    found = []
    for name, measured in zip(conditions, windows.conditions.unbind(dim=1), strict=True):
        numbers = condition_levels(measured)
        count = int(numbers.max()) + 1
        near = within_reach([float(measured[numbers == level].mean()) for level in range(count)])
        of = f" of {name}" if len(conditions) > 1 else ""
        found += [
            Level(
                f"level {level + 1} of {count}{of}",
                members=numbers == level,
                rest=numbers != level,
                between=0 < level < count - 1,
                near=near[level],
            )
            for level in range(count if count > 1 else 0)
        ]
    return found


def recorded_last(windows: Windows) -> Level:
    """Return the last quarter of every segment; no window of the rest reaches into it."""
    begins, length = windows.starts, windows.spec.length
    borders = torch.zeros_like(begins, dtype=torch.float64)
    for segment in sorted(set(windows.segments.tolist())):
        mine = windows.segments == segment
        first, end = begins[mine].min(), begins[mine].max() + length
        borders[mine] = first + (1 - LAST) * (end - first)
    return Level("the last quarter", begins >= borders, begins + length <= borders, later=True)


def condition_levels(measured: Tensor) -> Tensor:
    """Return, for every value of a condition, the number of its level, from the lowest to the highest."""
    ordered = measured.double().sort().values
    extent = ordered[-1] - ordered[0]
    gaps = torch.nonzero(ordered.diff() > APART * extent).squeeze(1)
    begins, ends = pad(gaps + 1, (1, 0)), pad(gaps, (0, 1), value=len(ordered) - 1)
    held = bool((ordered[ends] - ordered[begins] <= TIGHT * extent).all())
    if not held or len(begins) > MOST_LEVELS:
        # Not of as many windows each: where a value was held for long, a part would be a slice of its noise, and some
        # machine, which held it a little higher or lower, would have no window there.
        borders = ordered[0] + extent * torch.arange(1, FIFTHS, device=ordered.device) / FIFTHS
    else:
        borders = (ordered[gaps] + ordered[gaps + 1]) / 2
    numbers = torch.bucketize(measured.double(), borders)
    dense: Tensor = torch.unique(numbers, return_inverse=True)[1]
    return dense


def _meet(model: ModelBundle, level: Level, inside: Windows, outside: Windows, config: TrainConfig) -> _Meeting:
    """Let a model meet the level that was left out, with references from what was not."""
    references = _references(model, inside, config)
    some = outside.subset(_spread(len(outside), outside.device))
    inputs = _inputs(model, some, references)
    with torch.no_grad():
        scores = model.network.classify(model.network.F(inputs))
    if level.later:
        # It tells of no condition, so nothing of how far a known one may lie.
        return _Meeting(level, scores, some.labels, scores.new_empty(0))
    known = _known_space(model, inside, references)
    # Online both may be at a condition that training did not hold: the window, and the reference that is taken off it.
    pairs = [(outside, references), (inside, _references(model, outside, config))]
    distance = torch.cat([_distances(model, known, windows, drawn) for windows, drawn in pairs])
    return _Meeting(level, scores, some.labels, distance)


@torch.no_grad()
def _distances(model: ModelBundle, known: KnownSpace, windows: Windows, references: References | None) -> Tensor:
    """Return joined distances along every segment, each try with one reference for all of it, as on a watch."""
    network = model.network
    generator = torch.Generator(windows.device).manual_seed(model.manifest.seed)
    count = max(1, round(LENGTHS * windows.spec.length / windows.spec.step))
    found = []
    for segment in sorted(set(windows.segments.tolist())):
        mine = windows.subset(windows.segments == segment)
        seen = torch.cat([network.frontend(x) for _, x in mine.batches(SOME_WINDOWS)])
        for _ in range(1 if references is None else TRIES):
            drawn = None if references is None else references.draw_own(mine.machines[:1], generator)
            inputs = network.inputs(seen, drawn)
            # The distance is a product, and so its logarithm is what scatters evenly.
            joined = joined_mean(known(inputs, network.F(inputs)).log(), count).exp()
            found.append(joined[min(count, len(joined)) - 1 :])
    return torch.cat(found)


def within_reach(levels: Sequence[float]) -> list[bool]:
    """Return which levels lie between others, or not farther beyond them than half of what they span."""
    if len(levels) < 3:
        return [True] * len(levels)
    low, high = REACH * (levels[-1] - levels[1]), REACH * (levels[-2] - levels[0])
    return [levels[1] - levels[0] <= low, *[True] * (len(levels) - 2), levels[-1] - levels[-2] <= high]


def _finished(bundle: ModelBundle, all_met: Sequence[_Meeting], windows: Windows, config: TrainConfig) -> ModelBundle:
    met = [meeting for meeting in all_met if not meeting.level.later]
    # How sure to be is learnt from conditions between others, where most streams lie. What to call unknown is learnt
    # from those too that lie a little beyond: a known state at a far condition that is taken for unknown is worse than
    # an unknown one that is missed because it is near.
    between = [meeting for meeting in met if meeting.level.between] or met
    scores = torch.cat([meeting.scores for meeting in between])
    labels = torch.cat([meeting.labels for meeting in between])
    distance = torch.cat([meeting.distance for meeting in met if meeting.level.near])
    calibration = Calibration(
        levels=len(met),
        accuracy=_accuracy(scores, labels),
        later=next((_accuracy(one.scores, one.labels) for one in all_met if one.level.later), None),
        temperature=fit_temperature(scores, labels),
        distance=float(torch.quantile(_some(distance), KNOWN_SHARE)),
    )
    manifest = replace(bundle.manifest, calibration=calibration)
    return replace(bundle, manifest=manifest, known=_known_space(bundle, windows, _references(bundle, windows, config)))


def _accuracy(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(dim=1) == labels).double().mean())


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    """Return the temperature, of those on a grid, under which the scores explain the labels best."""
    exact = scores.double()
    losses = [float(cross_entropy(exact / temperature, labels)) for temperature in TEMPERATURES.tolist()]
    return float(TEMPERATURES[losses.index(min(losses))])


def _known_space(model: ModelBundle, windows: Windows, references: References | None) -> KnownSpace:
    some = windows.subset(_spread(len(windows), windows.device))
    network = model.network
    known = KnownSpace(len(model.manifest.classes), network.frontend.out_features, network.feature_width)
    inputs = _inputs(model, some, references)
    with torch.no_grad():
        known.to(windows.device).fit(inputs, network.F(inputs), some.labels)
    return known.eval()


def _references(model: ModelBundle, windows: Windows, config: TrainConfig) -> References | None:
    if model.network.reference is None:
        return None
    generator = torch.Generator().manual_seed(model.manifest.seed)
    return References(windows, model.network, seconds=config.reference_seconds, generator=generator)


@torch.no_grad()
def _inputs(model: ModelBundle, windows: Windows, references: References | None) -> Tensor:
    drawn = None
    if references is not None:
        generator = torch.Generator(windows.device).manual_seed(model.manifest.seed)
        drawn = references.draw(windows.machines, generator)
    parts = [
        model.network.inputs(x, None if drawn is None else drawn[where]) for where, x in windows.batches(SOME_WINDOWS)
    ]
    return torch.cat(parts)


def _spread(count: int, device: torch.device) -> Tensor:
    return torch.linspace(0, count - 1, min(count, SOME_WINDOWS), device=device).long()


def _some(values: Tensor) -> Tensor:
    """Return values evenly spread over all of them: quantiles over millions are refused."""
    return values[_spread(len(values), values.device)]


def _named(report: Report | None, name: str) -> Report | None:
    """Tell whoever listens which model is being trained."""
    if report is None:
        return None

    def tell(progress: Progress) -> None:
        report(replace(progress, phase=name))

    return tell
