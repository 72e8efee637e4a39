"""COFA: correlated feature adaptation, the part of UniTTA that needs no normalisation layer.

C. Du, Y. Wang, J. Guo, Y. Han, J. Zhou and G. Huang, "UniTTA: Unified
Benchmark and Versatile Framework Towards Realistic Test-Time Adaptation",
arXiv 2407.20080, 2024.

UniTTA's other part, balanced domain normalisation, replaces BatchNorm, which
this network does not have. No weight is changed.

COFA averages the features that enter the last, linear layer. For a linear layer
averaging features is the same as averaging scores, so the scores are averaged
here, without a second pass through the layer and wherever the tap is. A window
is averaged with the network's scores of the window before, not with an average,
so all windows of a batch are computed at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import StepOutput


class Cofa(AdaptingMethod):
    """Averages each window with the one before if that makes it more confident."""

    summary = "features averaged with the window before if that is more confident; no update (COFA)"

    def start(self) -> None:
        """Freeze the source model."""
        self._network = self.copy_network(trainable=False)
        self.memory = {"last_scores": torch.empty(0, len(self.bundle.manifest.classes), device=self.device)}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities of windows that follow the last window of the stream."""
        return self._diagnose(self._network(x.to(self.device, torch.float32))).probabilities

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        scores = self._network(x)
        output = self._diagnose(scores)
        self.memory["last_scores"] = scores[-1:].clone()
        return output

    def _diagnose(self, scores: Tensor) -> StepOutput:
        last = self.memory["last_scores"]
        # The first window of a stream is averaged with itself.
        before = torch.cat([last if len(last) else scores[:1], scores[:-1]])
        own = torch.softmax(scores, dim=1)
        averaged = torch.softmax((scores + before) / 2, dim=1)

        # Confidence filter: the average counts only if it is more confident than the window alone.
        confidence = own.amax(dim=1)
        better = averaged.amax(dim=1) > confidence
        probabilities = torch.where(better[:, None], averaged, own)
        return StepOutput(probabilities, evidence={"own_confidence": confidence, "averaged": better})
