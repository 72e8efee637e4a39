"""LAME: Laplacian adjusted maximum-likelihood estimation.

M. Boudiaf, R. Mueller, I. Ben Ayed and L. Bertinetto, "Parameter-Free Online
Test-Time Adaptation", CVPR 2022.

It changes what the model says, never the model, and so needs nothing that
this network lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cgsa.errors import ConfigError
from cgsa.online.base import MethodConfig, OnlineMethod, StepOutput


@dataclass(frozen=True)
class LameConfig(MethodConfig):
    """Settings of LAME."""

    neighbours: int = 5
    """k of the neighbour graph (5 in the paper); a smaller batch has all its other windows as neighbours."""
    iterations: int = 100
    """Most updates of a batch (100 in the authors' code): a graph that is not symmetric need not settle."""
    tolerance: float = 1e-6
    """Updates end once no probability changes by more; a few units in the last place of float32."""

    def __post_init__(self) -> None:
        if self.neighbours < 1 or self.iterations < 1 or self.tolerance < 0:
            raise ConfigError(
                f"neighbours {self.neighbours}, iterations {self.iterations}, tolerance {self.tolerance:g}; "
                f"expected neighbours >= 1, iterations >= 1 and tolerance >= 0"
            )


class Lame(OnlineMethod):
    """Windows of a batch with similar features are given similar probabilities.

    The batch is the unit: the probabilities of a window depend on the windows that came with it.
    """

    Config: ClassVar[type[MethodConfig]] = LameConfig
    summary: ClassVar[str] = "outputs smoothed over similar windows of the batch; no update (LAME)"

    def reset(self) -> None:
        """Take a fresh copy of the source model."""
        self._network = deepcopy(self.bundle.network).to(self.device).eval()

    def predict(self, x: Tensor) -> Tensor:
        """Return the smoothed class probabilities of a batch."""
        return self._step(x.to(self.device, torch.float32)).probabilities

    def state_dict(self) -> dict[str, Tensor]:
        """Return nothing: no batch depends on another."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: no batch depends on another."""

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        features = self._network.features(x)
        log_q = torch.log_softmax(self._network.classify(features), dim=1)
        nearest = nearest_neighbours(features, self.config.neighbours)
        z = smooth(log_q, nearest, self.config.iterations, self.config.tolerance)
        confidence, label = log_q.exp().max(dim=1)
        return StepOutput(z, evidence={"source_confidence": confidence, "source_label": label})


def nearest_neighbours(features: Tensor, neighbours: int) -> Tensor:
    """Return for each window the places of its nearest neighbours by angle: where w_ij is 1 and not 0."""
    unit = normalize(features, dim=1)
    # A window is not its own neighbour, even where another one is equal to it.
    similarity = (unit @ unit.T).fill_diagonal_(-torch.inf)
    return similarity.topk(min(neighbours, len(features) - 1), dim=1).indices


def smooth(log_q: Tensor, nearest: Tensor, iterations: int, tolerance: float) -> Tensor:
    """Iterate z_i proportional to q_i exp(sum_j w_ij z_j), the concave-convex procedure, from z = q."""
    z = log_q.exp()
    for _ in range(iterations):
        before, z = z, torch.softmax(log_q + z[nearest].sum(dim=1), dim=1)
        if bool((z - before).abs().max() <= tolerance):
            break
    return z
