"""LAME: Laplacian adjusted maximum-likelihood estimation.

M. Boudiaf, R. Mueller, I. Ben Ayed and L. Bertinetto, "Parameter-Free Online
Test-Time Adaptation", CVPR 2022.

It corrects the model's output, never the model, so it needs no layer that this
network lacks.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.source import FrozenSource


@dataclass(frozen=True)
class LameConfig(MethodConfig):
    """Settings of LAME."""

    neighbours: int = 5
    """k of the neighbour graph (5 in the paper); in a smaller batch all other windows are neighbours."""
    iterations: int = 100
    """Most iterations per batch (100 in the authors' code): with an asymmetric graph they need not converge."""
    tolerance: float = 1e-6
    """Iterations end when no probability changes by more; a few units in the last place of float32."""

    def __post_init__(self) -> None:
        self.check(
            *("neighbours", "iterations", "tolerance"),
            valid=self.neighbours >= 1 and self.iterations >= 1 and self.tolerance >= 0,
            expected="neighbours >= 1, iterations >= 1 and tolerance >= 0",
        )


class Lame(FrozenSource):
    """Gives windows of a batch with similar features similar probabilities.

    The probabilities of a window depend on the other windows of its batch, and on no other batch.
    """

    Config = LameConfig
    summary = "outputs smoothed over similar windows of the batch; no update (LAME)"

    def reset(self) -> None:
        """Take a fresh copy of the source network, whose features tell which windows are similar."""
        super().reset()
        self._network = deepcopy(self.bundle.network).to(self.device).eval()

    def predict(self, x: Tensor) -> Tensor:
        """Return the smoothed class probabilities of a batch."""
        return self._step(x.to(self.device, torch.float32)).probabilities

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        features = self._network.features(x)
        log_q = torch.log_softmax(self._network.classify(features), dim=1)
        nearest = nearest_neighbours(features, self.config.neighbours)
        z = smooth(log_q, nearest, self.config.iterations, self.config.tolerance)
        confidence, label = log_q.exp().max(dim=1)
        return StepOutput(z, evidence={"source_confidence": confidence, "source_label": label})


def nearest_neighbours(features: Tensor, neighbours: int) -> Tensor:
    """Return for each window the indices of its nearest neighbours by angle, where w_ij is 1 rather than 0."""
    unit = normalize(features, dim=1)
    # A window is not its own neighbour, even if another one is equal to it.
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
