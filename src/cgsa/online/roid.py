"""ROID: robust adaptation by weighted losses, weight ensembling and prior correction.

R. A. Marsden, M. Doebler and B. Yang, "Universal Test-time Adaptation through
Weight Ensembling, Diversity Weighting, and Prior Correction", WACV 2024.

ROID learns the scales and shifts of normalisation layers; this network has
none, so every weight is learnt and pulled back to the source. Its image
augmentations are replaced by the strong view of a vibration window.

A batch takes two forward and two backward passes: the windows, and a view of
the selected ones. Without the consistency loss it takes one of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, symmetric_cross_entropy
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class RoidConfig(MethodConfig):
    """Settings of ROID."""

    lr: float = 1e-5
    """Learning rate of Adam, the same as for the other methods that learn all weights."""
    source_momentum: float = 0.99
    """Share of the model kept after an update; the rest is the source's (0.99 in the paper)."""
    class_momentum: float = 0.9
    """Momentum of the running mean of the class probabilities (0.9 in the paper)."""
    temperature: float = 1 / 3
    """tau, which sharpens the weights of the windows (1/3 in the paper)."""
    consistency: bool = True
    """Whether a view of a window must get the same diagnosis as the window; costs the second pass."""

    def __post_init__(self) -> None:
        momenta = (self.source_momentum, self.class_momentum)
        self.check(
            *("lr", "temperature", "source_momentum", "class_momentum"),
            valid=self.lr > 0 and self.temperature > 0 and all(0 <= momentum <= 1 for momentum in momenta),
            expected="lr > 0, temperature > 0 and momenta from 0 to 1",
        )


class Roid(AdaptingMethod):
    """Learns most from windows that are certain and unlike recent ones, and stays close to the source."""

    Config = RoidConfig
    summary = "certainty and diversity weights, pull towards the source, prior correction (ROID)"

    def start(self) -> None:
        """Copy the source model, once to learn and once as anchor; all classes are equally likely at first."""
        self._anchor = self.copy_network(trainable=False)
        self._model = self.add_network("model", self.config.lr)
        classes = len(self.bundle.manifest.classes)
        self.memory = {"class_mean": torch.full((classes,), 1 / classes, device=self.device)}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the model's class probabilities, corrected by the prior of the batch."""
        return correct_by_prior(torch.softmax(self._model(x.to(self.device, torch.float32)), dim=1))

    def _step(self, x: Tensor) -> StepOutput:
        scores = self._model(x)
        raw = torch.softmax(scores.detach(), dim=1)

        # Certainty and diversity weights: a window counts more if it is certain and unlike recent ones.
        uncertainty = entropy(scores.detach())
        diversity = _scale_to_unit(1 - cosine_similarity(self.memory["class_mean"][None], raw, dim=1))
        certainty = _scale_to_unit(-uncertainty)
        # The most diverse window reaches the mean, so at least one is always selected.
        selected = diversity >= diversity.mean()
        weight = torch.exp(diversity * certainty / self.config.temperature) * selected
        momentum = self.config.class_momentum
        self.memory["class_mean"] = momentum * self.memory["class_mean"] + (1 - momentum) * raw.mean(dim=0)

        # Loss: soft likelihood ratio of the windows, and agreement with a view of them.
        loss = soft_likelihood_ratio(scores[selected])
        if self.config.consistency:
            view = strong_view(x[selected], self._model.frontend.deviation, self.generator)
            loss = loss + symmetric_cross_entropy(scores[selected], self._model(view))
        minimise(self.optimizers["model"], (weight[selected] * loss).sum() / len(x))

        # Weight ensembling: theta <- alpha theta + (1 - alpha) theta_source.
        update_ema(self._model, self._anchor, self.config.source_momentum)

        evidence = {"entropy": uncertainty, "diversity": diversity, "weight": weight}
        return StepOutput(correct_by_prior(raw), selected, evidence)


def soft_likelihood_ratio(scores: Tensor) -> Tensor:
    """Return - sum_c p_c log(p_c / (1 - p_c)) of each row.

    Unlike the gradient of the entropy, its gradient does not vanish as a window
    becomes certain; beyond 0.99, where the ratio would diverge, it is cut off.
    """
    p = scores.softmax(dim=1).clamp(max=0.99)
    return -(p * torch.log(p / (1 - p) + 1e-5)).sum(dim=1)


def correct_by_prior(probabilities: Tensor) -> Tensor:
    """Weight the classes by their estimated frequency in the batch.

    The prior is smoothed towards the uniform one, more so for fewer windows. It
    multiplies probabilities, as in Bayes' rule; the authors' code multiplies
    scores, which would penalise a likely class with a negative score.
    """
    windows, classes = probabilities.shape
    prior = probabilities.mean(dim=0)
    smoothing = max(1 / windows, 1 / classes) / prior.max()
    corrected = probabilities * (prior + smoothing) / (1 + smoothing * classes)
    return corrected / corrected.sum(dim=1, keepdim=True)


def _scale_to_unit(values: Tensor) -> Tensor:
    """Scale values to the range 0 to 1; equal values all become 0."""
    lowest, highest = values.aminmax()
    return (values - lowest) / (highest - lowest).clamp(min=torch.finfo(values.dtype).tiny)
