"""ACCUP: prototypes of sure windows beside the classifier, and contrast between classes.

P. Gong, M. Ragab, M. Wu, Z. Chen, Y. Su, X. Li and D. Zhang, "Augmented
Contrastive Clustering with Uncertainty-Aware Prototyping for Time Series Test
Time Adaptation", KDD 2025.

The authors update BatchNorm and the first convolutions; our network has
neither, so all weights are updated. Features are taken before the last linear
layer, whatever the tap, because the rows of that layer are the first prototypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cgsa.errors import ConfigError
from cgsa.nn.augment import magnitude_warp
from cgsa.nn.losses import entropy, supervised_contrastive
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class AccupConfig(MethodConfig):
    """Settings of ACCUP, as in its authors' code for the machine-fault set where not said otherwise."""

    lr: float = 3e-4
    """Learning rate of Adam."""
    supports: int = 100
    """Windows of least entropy that make the prototype of a class."""
    tau: float = 1.0
    """Multiplies the cosine between a window and the prototypes into a score."""
    temperature: float = 0.6
    """Divides similarities in the contrastive loss."""
    warp: float = 0.1
    """Size of the magnitude warp; our choice: amplitude carries load, so the curve stays near one."""

    def __post_init__(self) -> None:
        if min(self.lr, self.supports, self.tau, self.temperature) <= 0 or self.warp < 0:
            raise ConfigError(
                f"lr {self.lr:g}, supports {self.supports}, tau {self.tau:g}, temperature {self.temperature:g}, "
                f"warp {self.warp:g}; expected warp >= 0 and the others above 0"
            )


class _Verdict(NamedTuple):
    """What is said of a batch, and what is remembered of it."""

    probabilities: Tensor
    uncertainty: Tensor
    by_prototype: Tensor
    supports: dict[str, Tensor]


class Accup(AdaptingMethod):
    """The surer of classifier and prototypes speaks; scores of one pseudo-label are drawn together."""

    Config: ClassVar[type[MethodConfig]] = AccupConfig
    summary: ClassVar[str] = "ACCUP: low-entropy prototypes beside the classifier, contrastive clustering of scores"

    def start(self) -> None:
        """Copy the model, and begin the prototypes with the rows of its last layer."""
        self._model = self.copy_network(trainable=True)
        self.networks = {"model": self._model}
        self.optimizers = {"model": make_adam(self._model.parameters(), self.config.lr)}
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
        """Return the class probabilities of the classifier or the prototypes, whichever is surer of a window."""
        # The warp is drawn from a copy of the random numbers: the next step must draw the same.
        return self._judge(self._pair(x.to(self.device, torch.float32), self.generator.clone_state())).probabilities

    def _step(self, x: Tensor) -> StepOutput:
        views = self._pair(x, self.generator)
        verdict = self._judge(views)
        self.memory = verdict.supports
        pseudo_label = verdict.probabilities.argmax(dim=1)

        # Augmented contrastive clustering: scores of the window, its warped view and their mean. Both views go
        # through together, so that their common loss takes one pass back.
        scores = self._model(views)
        anchors = normalize(torch.cat([scores, _mean_over_views(scores)]), dim=1)
        loss = supervised_contrastive(anchors, pseudo_label.repeat(3), self.config.temperature)
        self.optimizers["model"].zero_grad()
        torch.autograd.backward(loss)
        self.optimizers["model"].step()

        evidence = {
            "entropy": verdict.uncertainty,
            "by_prototype": verdict.by_prototype,
            "pseudo_label": pseudo_label,
        }
        return StepOutput(verdict.probabilities, torch.ones_like(verdict.by_prototype), evidence)

    def _pair(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the windows and, after them, their magnitude-warped views."""
        return torch.cat([x, magnitude_warp(x, generator, size=self.config.warp)])

    @torch.no_grad()
    def _judge(self, views: Tensor) -> _Verdict:
        """Let the batch into the supports, and choose the surer speaker for each window."""
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
        return _Verdict(torch.softmax(chosen, dim=1), uncertainty, by_prototype, supports)


def _mean_over_views(values: Tensor) -> Tensor:
    """Return the mean of what was found for windows and for their warped views."""
    raw, warped = values.chunk(2)
    return (raw + warped) / 2


def _admit(supports: dict[str, Tensor], features: Tensor, scores: Tensor) -> dict[str, Tensor]:
    """Return the supports after a batch: for each class those of least entropy, old and new.

    All classes are sorted at once: a row a class, its supports first and then the whole batch, in which windows
    of other classes count as infinitely unsure. Equal entropies keep the older window.
    """
    classes, slots, width = supports["features"].shape
    own = scores.argmax(dim=1) == torch.arange(classes, device=scores.device)[:, None]
    unsure = torch.cat([supports["entropy"], torch.where(own, entropy(scores), torch.inf)], dim=1)
    everyone = torch.cat([supports["features"], features.expand(classes, -1, -1)], dim=1)
    least, place = torch.sort(unsure, dim=1, stable=True)
    least, place = least[:, :slots], place[:, :slots]
    valid = least.isfinite()
    kept = everyone.gather(1, place[:, :, None].expand(-1, -1, width))
    # An empty slot holds zeros, not a window of another class.
    return {"features": torch.where(valid[:, :, None], kept, 0.0), "entropy": least, "valid": valid}


def _prototypes(supports: dict[str, Tensor]) -> Tensor:
    """Return the mean support of each class; zero, alike to nothing, for a class without any."""
    count = supports["valid"].sum(dim=1, keepdim=True).clamp(min=1)
    return supports["features"].sum(dim=1) / count
