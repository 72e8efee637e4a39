"""ROID: robust adaptation by weighted losses, weight ensembling and prior correction.

R. A. Marsden, M. Doebler and B. Yang, "Universal Test-time Adaptation through
Weight Ensembling, Diversity Weighting, and Prior Correction", WACV 2024.

ROID learns the scales and shifts of normalisation layers; this network has
none, so every weight is learnt and drawn back to the source. Its image
augmentations are replaced by the strong view of a vibration window.

A batch takes two forward and two backward passes: the windows, and a view of
the chosen ones. Without the consistency loss it takes one of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, symmetric_cross_entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class RoidConfig(MethodConfig):
    """Settings of ROID."""

    lr: float = 1e-5
    """Learning rate of Adam, the same as for the other methods that learn all weights."""
    source_momentum: float = 0.99
    """Share of its own weights that the model keeps after an update; the rest is the source's (0.99 in the paper)."""
    class_momentum: float = 0.9
    """Weight of the past in the running mean of the class probabilities (0.9 in the paper)."""
    temperature: float = 1 / 3
    """tau, which sharpens the weights of the windows (1/3 in the paper)."""
    consistency: bool = True
    """Whether the view of a window must be diagnosed like the window; costs the second pass."""

    def __post_init__(self) -> None:
        momenta = (self.source_momentum, self.class_momentum)
        if self.lr <= 0 or self.temperature <= 0 or not all(0 <= momentum <= 1 for momentum in momenta):
            raise ConfigError(
                f"lr {self.lr:g}, temperature {self.temperature:g}, source_momentum {self.source_momentum:g}, "
                f"class_momentum {self.class_momentum:g}; expected lr > 0, temperature > 0 and momenta from 0 to 1"
            )


class Roid(AdaptingMethod):
    """The model learns most from windows that are sure and unlike the recent ones, and never strays far."""

    Config: ClassVar[type[MethodConfig]] = RoidConfig
    summary: ClassVar[str] = "certainty and diversity weights, pull towards the source, prior correction (ROID)"

    def start(self) -> None:
        """Copy the source model, once to learn and once to be drawn back to; expect all classes alike."""
        self._source = self.copy_network(trainable=False)
        self._model = self.copy_network(trainable=True)
        self.networks = {"model": self._model}
        self.optimizers = {"model": make_adam(self._model.parameters(), self.config.lr)}
        classes = len(self.bundle.manifest.classes)
        self.memory = {"class_mean": torch.full((classes,), 1 / classes, device=self.device)}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the model's class probabilities, corrected by the prior of the batch."""
        return correct_by_prior(torch.softmax(self._model(x.to(self.device, torch.float32)), dim=1))

    def _step(self, x: Tensor) -> StepOutput:
        scores = self._model(x)
        raw = torch.softmax(scores.detach(), dim=1)

        # Certainty and diversity weights: a window counts more the surer it is and the less it resembles recent ones.
        uncertainty = entropy(scores.detach())
        diversity = _spread(1 - cosine_similarity(self.memory["class_mean"][None], raw, dim=1))
        certainty = _spread(-uncertainty)
        # The most diverse window reaches the mean, so that at least one is always chosen.
        chosen = diversity >= diversity.mean()
        weight = torch.exp(diversity * certainty / self.config.temperature) * chosen
        momentum = self.config.class_momentum
        self.memory["class_mean"] = momentum * self.memory["class_mean"] + (1 - momentum) * raw.mean(dim=0)

        # Loss: soft likelihood ratio of the windows, and agreement with a view of them.
        loss = soft_likelihood_ratio(scores[chosen])
        if self.config.consistency:
            deviation = cast(Tensor, self._model.frontend.deviation)
            view = strong_view(x[chosen], deviation, self.generator)
            loss = loss + symmetric_cross_entropy(scores[chosen], self._model(view))
        self.optimizers["model"].zero_grad()
        torch.autograd.backward((weight[chosen] * loss).sum() / len(x))
        self.optimizers["model"].step()

        # Weight ensembling: theta <- alpha theta + (1 - alpha) theta_source.
        update_ema(self._model, self._source, self.config.source_momentum)

        evidence = {"entropy": uncertainty, "diversity": diversity, "weight": weight}
        return StepOutput(correct_by_prior(raw), chosen, evidence)


def soft_likelihood_ratio(scores: Tensor) -> Tensor:
    """Return - sum_c p_c log(p_c / (1 - p_c)) of each row.

    Unlike that of the entropy, its gradient does not fade as a window becomes
    sure; beyond 0.99 it stops, where the ratio would grow without bound.
    """
    p = scores.softmax(dim=1).clamp(max=0.99)
    return -(p * torch.log(p / (1 - p) + 1e-5)).sum(dim=1)


def correct_by_prior(probabilities: Tensor) -> Tensor:
    """Weigh the classes by how often they seem to occur in the batch.

    The prior is smoothed towards the uniform one, the more the fewer windows
    there are. It multiplies probabilities, as Bayes' rule asks; the authors'
    code multiplies scores, which would punish a likely class of negative score.
    """
    windows, classes = probabilities.shape
    prior = probabilities.mean(dim=0)
    smoothing = max(1 / windows, 1 / classes) / prior.max()
    corrected = probabilities * (prior + smoothing) / (1 + smoothing * classes)
    return corrected / corrected.sum(dim=1, keepdim=True)


def _spread(values: Tensor) -> Tensor:
    """Stretch values over 0 to 1; where all are alike there is nothing to tell them apart by, and all are 0."""
    lowest, highest = values.aminmax()
    return (values - lowest) / (highest - lowest).clamp(min=torch.finfo(values.dtype).tiny)
