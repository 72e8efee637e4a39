"""ACCUP: prototypes of confident windows next to the classifier, and contrast between classes.

P. Gong, M. Ragab, M. Wu, Z. Chen, Y. Su, X. Li and D. Zhang, "Augmented
Contrastive Clustering with Uncertainty-Aware Prototyping for Time Series Test
Time Adaptation", KDD 2025.

The authors update BatchNorm and the first convolutions; our network has
neither, so all weights are updated. Features are taken before the last linear
layer, whatever the tap, because its rows are the first prototypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cgsa.nn.augment import magnitude_warp
from cgsa.nn.losses import entropy, supervised_contrastive
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class AccupConfig(MethodConfig):
    """Settings of ACCUP; unless noted, as in its authors' code for the machine-fault data set."""

    lr: float = 3e-4
    """Learning rate of Adam."""
    supports: int = 100
    """Number of windows of least entropy that form the prototype of a class."""
    tau: float = 1.0
    """Factor from the cosine between a window and a prototype to a score."""
    temperature: float = 0.6
    """Divides similarities in the contrastive loss."""
    warp: float = 0.1
    """Size of the magnitude warp; our choice, small because amplitude carries the load."""

    def __post_init__(self) -> None:
        self.check(
            *("lr", "supports", "tau", "temperature", "warp"),
            valid=min(self.lr, self.supports, self.tau, self.temperature) > 0 and self.warp >= 0,
            expected="warp >= 0 and the others above 0",
        )


class _BatchOutput(NamedTuple):
    """Predictions for a batch, and the supports after it."""

    probabilities: Tensor
    uncertainty: Tensor
    by_prototype: Tensor
    supports: dict[str, Tensor]


class Accup(AdaptingMethod):
    """The more confident of classifier and prototypes predicts; scores of equal pseudo-label attract each other."""

    Config = AccupConfig
    summary = "ACCUP: low-entropy prototypes next to the classifier, contrastive clustering of scores"

    def start(self) -> None:
        """Copy the model and initialise the prototypes with the rows of its last layer."""
        self._model = self.add_network("model", self.config.lr)
        last = cast(nn.Linear, self._model.G[-1])
        classes, slots = len(self.bundle.manifest.classes), self.config.supports
        with torch.no_grad():
            rows = last.weight.detach().clone()
            self.memory = _admit(
                {
                    "features": torch.zeros(classes, slots, last.in_features, device=self.device),
                    "entropy": torch.full((classes, slots), torch.inf, device=self.device),
                    "valid": torch.zeros(classes, slots, dtype=torch.bool, device=self.device),
                },
                rows,
                last(rows),
            )

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the classifier or the prototypes, whichever is more confident."""
        # The warp is drawn from a copy of the generator: the next step must draw the same.
        return self._diagnose(self._pair(x.to(self.device, torch.float32), self.generator.clone_state())).probabilities

    def _step(self, x: Tensor) -> StepOutput:
        views = self._pair(x, self.generator)
        output = self._diagnose(views)
        self.memory = output.supports
        pseudo_label = output.probabilities.argmax(dim=1)

        # Augmented contrastive clustering: scores of the window, its warped view and their mean. Both views share one
        # forward pass, so that their common loss takes one backward pass.
        scores = self._model(views)
        anchors = normalize(torch.cat([scores, _mean_over_views(scores)]), dim=1)
        loss = supervised_contrastive(anchors, pseudo_label.repeat(3), self.config.temperature)
        minimise(self.optimizers["model"], loss)

        evidence = {"entropy": output.uncertainty, "by_prototype": output.by_prototype, "pseudo_label": pseudo_label}
        return StepOutput(output.probabilities, torch.ones_like(output.by_prototype), evidence)

    def _pair(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the windows, followed by their magnitude-warped views."""
        return torch.cat([x, magnitude_warp(x, generator, size=self.config.warp)])

    @torch.no_grad()
    def _diagnose(self, views: Tensor) -> _BatchOutput:
        """Add the batch to the supports, and choose the more confident prediction for each window."""
        # Uncertainty-aware prototypes: features and scores are means over the two views.
        embedded = self._model.G[:-1](self._model.features(views))
        features, scores = _mean_over_views(embedded), _mean_over_views(self._model.G[-1](embedded))
        supports = _admit(self.memory, features, scores)
        prototypes = normalize(_prototypes(supports), dim=1)
        prototype_scores = self.config.tau * normalize(features, dim=1) @ prototypes.T

        # Entropy comparison. Both sides become probabilities; the authors' code mixes them with bare scores.
        uncertainty, prototype_uncertainty = entropy(scores), entropy(prototype_scores)
        by_prototype = prototype_uncertainty < uncertainty
        chosen = torch.where(by_prototype[:, None], prototype_scores, scores)
        uncertainty = torch.minimum(uncertainty, prototype_uncertainty)
        return _BatchOutput(torch.softmax(chosen, dim=1), uncertainty, by_prototype, supports)


def _mean_over_views(values: Tensor) -> Tensor:
    """Return the mean of the values of windows and of their warped views."""
    raw, warped = values.chunk(2)
    return (raw + warped) / 2


def _admit(supports: dict[str, Tensor], features: Tensor, scores: Tensor) -> dict[str, Tensor]:
    """Return the supports after a batch: the windows of least entropy of each class, old and new.

    All classes are sorted at once, one row per class: its supports, then the whole batch, where windows of other
    classes have infinite entropy. Of equal entropies the older window is kept.
    """
    classes, slots, width = supports["features"].shape
    own = scores.argmax(dim=1) == torch.arange(classes, device=scores.device)[:, None]
    uncertainty = torch.cat([supports["entropy"], torch.where(own, entropy(scores), torch.inf)], dim=1)
    candidates = torch.cat([supports["features"], features.expand(classes, -1, -1)], dim=1)
    least, order = torch.sort(uncertainty, dim=1, stable=True)
    least, order = least[:, :slots], order[:, :slots]
    valid = least.isfinite()
    kept = candidates.gather(1, order[:, :, None].expand(-1, -1, width))
    # An empty slot contains zeros, not a window of another class.
    return {"features": torch.where(valid[:, :, None], kept, 0.0), "entropy": least, "valid": valid}


def _prototypes(supports: dict[str, Tensor]) -> Tensor:
    """Return the mean support of each class; zero, similar to nothing, for a class without any."""
    count = supports["valid"].sum(dim=1, keepdim=True).clamp(min=1)
    return supports["features"].sum(dim=1) / count
