"""SupCon: supervised contrastive features, then a classifier on top.

P. Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020. All online
methods that the paper compares start from such a model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cgsa.errors import ConfigError
from cgsa.nn.losses import supervised_contrastive
from cgsa.nn.mlp import mlp
from cgsa.offline.base import Batch, Losses, Objective, ObjectiveConfig, Phase


@dataclass(frozen=True)
class SupConConfig(ObjectiveConfig):
    """Settings of SupCon."""

    temperature: float = 0.07
    """Divides similarities, as in its authors' code."""
    projection: int = 128
    """Width of the projection, which is dropped after the first phase."""
    classifier_share: float = 0.1
    """Epochs of the second phase as a fraction of the first; one linear layer converges quickly."""

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.projection < 1 or self.classifier_share <= 0:
            raise ConfigError("temperature, projection and classifier_share must be positive")


class SupCon(Objective):
    """Trains F by contrast between two views, then G on the frozen F."""

    Config = SupConConfig
    summary = "supervised contrastive features, then a classifier on the frozen extractor"
    needs = frozenset({"labels", "raw"})

    def build(self) -> None:
        """Create the projection head."""
        width = self.network.feature_width
        self.projection = mlp((width, width, self.config.projection))

    def phases(self, epochs: int) -> tuple[Phase, ...]:
        """Train F and the projection by contrast, then G alone as a classifier."""
        classifier_epochs = max(1, round(self.config.classifier_share * epochs))
        return (
            Phase("contrast", epochs, (self.network.F, self.projection), self._contrast),
            Phase("classify", classifier_epochs, (self.network.G,), self.on_views(self._classify)),
        )

    def _contrast(self, batch: Batch, _progress: Tensor) -> Losses:
        # Without views, a window is compared with the others of its class alone.
        views = [batch.x] if self.views == "none" else [self.view(batch) for _ in range(2)]
        references = None if batch.reference is None else batch.reference.repeat(len(views), 1)
        embeddings = normalize(self.projection(self.network.features(torch.cat(views), references)), dim=1)
        loss = supervised_contrastive(embeddings, batch.label.repeat(len(views)), self.config.temperature)
        return Losses(loss, {"contrast": loss})

    def _classify(self, batch: Batch, _progress: Tensor) -> Losses:
        with torch.no_grad():
            features = self.network.features(batch.x, batch.reference)
        scores = self.network.classify(features)
        loss = self.classification(scores, batch.label)
        return Losses(loss, {"classification": loss}, scores)
