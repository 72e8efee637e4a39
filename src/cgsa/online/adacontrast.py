"""AdaContrast: contrastive learning and self-training on pseudo-labels refined by neighbours.

D. Chen, D. Wang, T. Darrell and S. Ebrahimi, "Contrastive Test-Time
Adaptation", CVPR 2022.

Its image augmentations are replaced by the strong view of vibration windows;
the weak view is the window itself, so that predictions are for the measured
signal. Its SGD is replaced by Adam, the optimiser of every method here, over
all weights. Bank and queue start empty: the bank cannot see the stream in
advance, and random vectors in the queue would affect learning until replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class AdaContrastConfig(MethodConfig):
    """Settings of AdaContrast."""

    lr: float = 1e-4
    """Learning rate of Adam. The authors' SGD at 2e-4 has no counterpart in Adam: tune between 1e-6 and 1e-3."""
    momentum: float = 0.999
    """Share of the momentum model kept per batch, as in the authors' code; 0.9 and 0.99 suit short streams."""
    temperature: float = 0.07
    """Divides similarities in the contrastive loss, as in the authors' code."""
    neighbours: int = 10
    """Nearest features whose probabilities are averaged into a pseudo-label, as in the authors' code."""
    queue: int = 4096
    """Latest windows in the bank and in the queue. The authors' 16,384 would take 64 batches of 256 to fill."""
    contrast: float = 1.0
    """Weight of the contrastive loss relative to the cross-entropy, as in the authors' code."""
    diversity: float = 1.0
    """Weight of the diversity, as in the authors' code. It assumes equally frequent classes in every batch, which a
    machine in one state never produces; 0 leaves it out."""

    def __post_init__(self) -> None:
        self.check(
            *("lr", "momentum", "temperature"),
            valid=self.lr > 0 and 0 <= self.momentum <= 1 and self.temperature > 0,
            expected="lr > 0, 0 <= momentum <= 1 and temperature > 0",
        )
        self.check(
            *("neighbours", "queue", "contrast", "diversity"),
            valid=self.neighbours >= 1 and self.queue >= 1 and self.contrast >= 0 and self.diversity >= 0,
            expected="neighbours >= 1, queue >= 1 and no negative weight",
        )


class AdaContrast(AdaptingMethod):
    """A student learns pseudo-labels of its neighbours and separates windows of different pseudo-labels."""

    Config = AdaContrastConfig
    summary = "AdaContrast: pseudo-labels refined by neighbours, with a contrast between labels"
    predicts_with = "student"

    def start(self) -> None:
        """Copy student and momentum model from the source; bank and queue are empty."""
        self._student = self.add_network("student", self.config.lr)
        self._momentum_model = self.add_network("momentum")
        width, classes = self._student.feature_width, len(self.bundle.manifest.classes)
        self.memory = {
            "bank_features": torch.empty(0, width, device=self.device),
            "bank_probabilities": torch.empty(0, classes, device=self.device),
            "queue_keys": torch.empty(0, width, device=self.device),
            "queue_labels": torch.empty(0, dtype=torch.int64, device=self.device),
        }

    def _step(self, x: Tensor) -> StepOutput:
        # Online pseudo-label refinement: the student predicts the weak view, its neighbours correct the pseudo-label.
        with torch.no_grad():
            features, scores = _pass(self._student, x)
            probabilities = torch.softmax(scores, dim=1)
            pseudo_label = self._refine(features, probabilities).argmax(dim=1)

        # Joint contrastive learning: a query of the student and a key of the momentum model, from two strong views.
        deviation = self._student.frontend.deviation
        query_view = strong_view(x, deviation, self.generator)
        key_view = strong_view(x, deviation, self.generator)
        query, query_scores = _pass(self._student, query_view)
        with torch.no_grad():
            key, _ = _pass(self._momentum_model, key_view)
            bank_features, bank_scores = _pass(self._momentum_model, x)

        # Self-training, contrast and diversity regularisation: one step on all windows.
        loss = (
            cross_entropy(query_scores, pseudo_label)
            + self.config.contrast * self._contrast(query, key, pseudo_label)
            - self.config.diversity * _entropy_of_mean(query_scores)
        )
        minimise(self.optimizers["student"], loss)
        update_ema(self._momentum_model, self._student, self.config.momentum)

        # Bank and queue are updated last, so that no window is its own neighbour.
        self._push("bank_features", bank_features)
        self._push("bank_probabilities", torch.softmax(bank_scores, dim=1))
        self._push("queue_keys", key)
        self._push("queue_labels", pseudo_label)

        evidence = {"entropy": entropy(scores), "pseudo_label": pseudo_label}
        return StepOutput(probabilities, torch.ones_like(pseudo_label, dtype=torch.bool), evidence)

    def _refine(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """Return the mean probabilities of the nearest features in the bank; the given ones while it is empty."""
        bank = self.memory["bank_features"]
        if len(bank) == 0:
            return probabilities
        nearest = (features @ bank.T).topk(min(self.config.neighbours, len(bank)), dim=1).indices
        return self.memory["bank_probabilities"][nearest].mean(dim=1)

    def _contrast(self, query: Tensor, key: Tensor, pseudo_label: Tensor) -> Tensor:
        """Return InfoNCE of each query, its key, and the queued keys whose pseudo-label differs."""
        positive = (query * key).sum(dim=1, keepdim=True)
        same = pseudo_label[:, None] == self.memory["queue_labels"][None, :]
        negative = (query @ self.memory["queue_keys"].T).masked_fill(same, -torch.inf)
        similarity = torch.cat([positive, negative], dim=1) / self.config.temperature
        return cross_entropy(similarity, torch.zeros_like(pseudo_label))

    def _push(self, name: str, new: Tensor) -> None:
        self.memory[name] = torch.cat([self.memory[name], new])[-self.config.queue :].clone()


def _pass(network: DiagnosisNet, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return unit-length features and class scores."""
    features = network.features(x)
    return normalize(features, dim=1), network.classify(features)


def _entropy_of_mean(scores: Tensor) -> Tensor:
    """Return the entropy of the mean probabilities of a batch."""
    # In the log domain, so that no class underflows to log 0.
    log_mean = scores.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(scores))
    return -(log_mean.exp() * log_mean).sum()
