"""Plain training: cross-entropy on the labels, the paper's baseline (table IV)."""

from __future__ import annotations

from torch import Tensor

from cgsa.offline.base import Batch, Losses, Objective, Phase


class Plain(Objective):
    """Cross-entropy of G(F(x)), eq. (2) alone."""

    summary = "cross-entropy alone; the paper's baseline"

    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """One phase over F and G."""
        return (Phase("plain", epochs, (self.network,), self.on_views(self._loss)),)

    def _loss(self, batch: Batch, _progress: Tensor) -> Losses:
        scores = self.network(batch.x, batch.reference)
        loss = self.classification(scores, batch.label)
        return Losses(loss, {"classification": loss}, scores)
