"""The start of a machine that is to be healthy: what is kept of it, and whether it is suitable for a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import log
from typing import Self

import torch
from torch import Tensor

from cgsa.events import WaitCause
from cgsa.nn.bundle import Manifest

MAX_ROWS = 256
"""Rows that are kept of a span, however long it is; a power of two."""
STANDSTILL_SHARE = 1 / 3
"""A machine stands still if every channel is below this share of its level in the quietest training recording."""
FAR = 2.0
"""Windows at more than this multiple of the limit of the known are no machine like those of the training. Healthy
machines at untrained conditions may exceed the limit itself: they lead to a question."""
MIN_SUITABLE_SHARE = 0.8
"""Share of the windows of a batch that must be suitable; a few may be bad."""
MOVING_LEVEL = log(2)
"""A start is not steady if the level of a channel differs by more than this factor between its quarters. Within steady
recordings of six real machines it differs by at most 1.9."""
QUARTERS = 4

CAUSES: tuple[WaitCause | None, ...] = (None, "standstill", "outside training", "sensor fault", "not steady")
"""Meaning of the codes of causes; 0 is none."""
STANDSTILL, OUTSIDE, SENSOR, NOT_STEADY = 1, 2, 3, 4
EXPLANATIONS: Mapping[WaitCause, str] = {
    "standstill": "standstill, the level is far below that of every training recording",
    "outside training": "far from all training data, so this is noise, a sensor fault or a condition far outside",
    "sensor fault": "the quality gate rejects too many windows",
    "not steady": "the start was not steady, its level or its state changed; observing it anew",
}


@dataclass(frozen=True, eq=False)
class ObservedRows:
    """What is kept of windows, or of means over several windows, one row each."""

    scores: Tensor
    """(rows, members, classes), without a reference."""
    levels: Tensor
    """(rows, channels): logarithm of the standard deviation."""
    distances: Tensor
    """(rows,): logarithm of the distance from the training data; 0 if the model has none."""
    conditions: Tensor | None = None
    """(rows, conditions): operating conditions, NaN where unknown; None for methods that do not use them."""
    features: Tensor | None = None
    """(rows, features): what is compared with the start; None for methods that compare scores alone, and in a
    history, where features would be too many."""

    @classmethod
    def empty(
        cls,
        members: int,
        classes: int,
        channels: int,
        device: torch.device,
        *,
        conditions: int | None = None,
        features: int | None = None,
    ) -> Self:
        """Return no rows; ``conditions`` and ``features`` are their numbers for methods that use them."""
        scores, levels, distances = (
            torch.zeros(shape, device=device) for shape in ((0, members, classes), (0, channels), (0,))
        )
        known = None if conditions is None else torch.zeros(0, conditions, dtype=torch.float64, device=device)
        compared = None if features is None else torch.zeros(0, features, device=device)
        return cls(scores, levels, distances, known, compared)

    def __len__(self) -> int:
        return len(self.distances)

    def __getitem__(self, index: Tensor | slice) -> ObservedRows:
        return ObservedRows(**{name: tensor[index] for name, tensor in self.tensors().items()})

    def followed_by(self, others: ObservedRows) -> ObservedRows:
        """Return these rows and then the others."""
        after = others.tensors()
        return ObservedRows(**{name: torch.cat([tensor, after[name]]) for name, tensor in self.tensors().items()})

    def without_features(self) -> ObservedRows:
        """Return the same rows as a history keeps them."""
        return replace(self, features=None)

    def mean(self) -> ObservedRows:
        """Return one row with the means."""
        return ObservedRows(**{name: tensor.mean(dim=0, keepdim=True) for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: tensor for name, tensor in found.items() if tensor is not None}


def add_thinned(kept: ObservedRows, count: int, new: ObservedRows) -> ObservedRows:
    """Return evenly spaced rows of a span of ``count`` windows, of which some are kept, and of the new ones after it.

    The result has at most ``MAX_ROWS`` rows, and does not depend on how the windows were divided into calls.
    """
    before, after = _stride(count), _stride(count + len(new))
    place = torch.arange(count, count + len(new), device=new.distances.device)
    return kept[:: after // before].followed_by(new[place % after == 0])


def _stride(count: int) -> int:
    """Return the least power of two at which a span has no more than ``MAX_ROWS`` rows."""
    return 1 << (max(0, count - 1) // MAX_ROWS).bit_length()


@dataclass(frozen=True, eq=False)
class StartLimits:
    """Limits of a suitable start, from the training of the model."""

    lowest: Tensor | None
    """(channels,): logarithm of the lowest levels in training; None if unknown."""
    known: float | None
    """Logarithm of the distance within which windows are known; None if the model has no distance."""

    @classmethod
    def of(cls, manifest: Manifest, device: torch.device) -> Self:
        """Return the limits of a model."""
        lowest, calibration = manifest.lowest_levels, manifest.calibration
        return cls(
            None if lowest is None else torch.tensor(lowest, device=device).clamp(min=1e-30).log(),
            None if calibration is None else log(calibration.distance),
        )

    def flaws(self, rows: ObservedRows) -> Tensor:
        """Return the code of what makes each row unsuitable; 0 if nothing does."""
        code = torch.zeros(len(rows), dtype=torch.int64, device=rows.distances.device)
        if self.known is not None:
            code[rows.distances > self.known + log(FAR)] = OUTSIDE
        if self.lowest is not None:
            code[((rows.levels - self.lowest) < log(STANDSTILL_SHARE)).all(dim=1)] = STANDSTILL
        return code

    def resembles_training(self, rows: ObservedRows) -> bool:
        """Return whether nearly all rows are within the limit of the known; never without a distance."""
        return self.known is not None and float((rows.distances <= self.known).double().mean()) >= MIN_SUITABLE_SHARE


def common_flaw(flaws: Tensor) -> int:
    """Return the most frequent flaw if too many rows have one; 0 if enough are suitable."""
    if float((flaws == 0).double().mean()) >= MIN_SUITABLE_SHARE:
        return 0
    return int(flaws[flaws > 0].mode().values)


def level_moves(rows: ObservedRows) -> bool:
    """Return whether the level of a channel differs between the quarters of a span."""
    quarters = torch.stack([part.median(dim=0).values for part in rows.levels.tensor_split(QUARTERS) if len(part)])
    return bool((quarters.amax(dim=0) - quarters.amin(dim=0) > MOVING_LEVEL).any())


def window_levels(x: Tensor) -> Tensor:
    """Return the logarithm of the standard deviation of each channel of windows, (windows, channels)."""
    # Two passes: the one of torch's standard deviation takes five times as long.
    centred = x - x.mean(dim=2, keepdim=True)
    return centred.square().mean(dim=2).sqrt().clamp(min=1e-30).log()
