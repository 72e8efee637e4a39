"""What torch computes for the same windows: the model of a bundle in double precision, or as it runs in a watch."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.data.windows import overlapping_windows
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.change import ChangeModel
from cgsa.nn.distance import TrainingDistance
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import KnownCheck

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FrozenOutput:
    """Output of a frozen model for some windows."""

    probabilities: Doubles
    """(windows, classes)"""
    distance: Doubles
    """(windows,): 1 if the model knows none."""
    from_start: StartOutput | None = None
    """None if the model compares nothing with a start of the machine."""


@dataclass(frozen=True, eq=False)
class StartOutput:
    """Output relative to a healthy start of the machine, for which the mean of the windows stands."""

    probabilities: Doubles
    """(windows, classes)"""
    change: Doubles
    """(windows,): distance from the start, 1 at the limit."""


class TorchModel:
    """The frozen model of a bundle, in a floating-point type of torch."""

    def __init__(self, bundle: ModelBundle, dtype: torch.dtype) -> None:
        self._dtype, self._spec = dtype, bundle.manifest.window
        self._model = deepcopy(bundle.model).cpu().to(dtype).eval()
        self._known = None if bundle.known is None else deepcopy(bundle.known).cpu().to(dtype)
        own_start = bundle.own_start_on(torch.device("cpu"))
        self._own_start = None if own_start is None else own_start.to(dtype)

    @torch.no_grad()
    def __call__(self, samples: npt.NDArray[np.float32]) -> FrozenOutput:
        """Return the output for the windows of samples (channels, samples)."""
        x = overlapping_windows(torch.from_numpy(samples).to(self._dtype), self._spec.length, self._spec.step)
        model, distance, from_start = self._model, torch.ones(len(x)), None
        if isinstance(model, Ensemble):
            features = model.extract(x)
            scores = model.combine(model.member_scores(features, trees=model.stacked_trees()))
            if isinstance(self._known, KnownCheck):
                distance = self._known(features, x.mean(dim=2))[0]
            if self._own_start is not None:
                rows = self._own_start.rows(features)
                apart = self._own_start.log_distance(rows, rows.mean(dim=0, keepdim=True))
                healthier = self._own_start.probabilities(torch.softmax(scores, dim=1), apart)
                from_start = StartOutput(_array(healthier), _array(self._own_start.change(apart)))
        elif isinstance(model, ChangeModel):
            scores, rows = model(x), model.rows(x)
            score, odds = model.log_score(rows, rows.mean(dim=0, keepdim=True))
            changed = torch.stack([torch.zeros_like(odds), odds], dim=1)
            from_start = StartOutput(_array(torch.softmax(changed, dim=1)), _array(score.exp()))
        else:
            inputs = model.inputs(x)
            embedding = model.F(inputs)
            scores = model.classify(embedding)
            if isinstance(self._known, TrainingDistance):
                distance = self._known(inputs, embedding)
        return FrozenOutput(_array(torch.softmax(scores, dim=1)), _array(distance), from_start)


def _array(values: Tensor) -> Doubles:
    return values.double().numpy()
