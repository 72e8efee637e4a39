"""AdaContrast: contrast and self-training on pseudo-labels that neighbours refine.

D. Chen, D. Wang, T. Darrell and S. Ebrahimi, "Contrastive Test-Time
Adaptation", CVPR 2022.

Its image crops and colours are replaced by the strong view of vibration
windows; the weak view is the window itself, so that the prediction is of what
was measured. Its SGD is replaced by Adam, the optimiser of every method here,
over all weights. Bank and queue start empty: the bank cannot see the stream in
advance, and a queue of random vectors would be learnt from until it has filled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class AdaContrastConfig(MethodConfig):
    """Settings of AdaContrast."""

    lr: float = 1e-4
    """Learning rate of Adam. The authors' SGD at 2e-4 has no counterpart in Adam: tune between 1e-6 and 1e-3."""
    momentum: float = 0.999
    """How much of the momentum model is kept a batch, as in the authors' code; 0.9 and 0.99 suit short streams."""
    temperature: float = 0.07
    """Divides similarities in the contrast, as in the authors' code."""
    neighbours: int = 10
    """Nearest features whose probabilities are averaged into a pseudo-label, as in the authors' code."""
    queue: int = 4096
    """Newest windows in the bank and in the queue. The authors' 16,384 would take 64 batches of 256 to fill."""
    contrast: float = 1.0
    """Weight of the contrast beside a cross-entropy of weight 1, as in the authors' code."""
    diversity: float = 1.0
    """Weight of the diversity, as in the authors' code. It assumes classes in equal numbers in every batch, which a
    machine in one state never gives; 0 leaves it out."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or not 0 <= self.momentum <= 1 or self.temperature <= 0:
            raise ConfigError(
                f"lr {self.lr:g}, momentum {self.momentum:g}, temperature {self.temperature:g}; "
                f"expected lr > 0, 0 <= momentum <= 1 and temperature > 0"
            )
        if self.neighbours < 1 or self.queue < 1 or self.contrast < 0 or self.diversity < 0:
            raise ConfigError(
                f"neighbours {self.neighbours}, queue {self.queue}, contrast {self.contrast:g}, "
                f"diversity {self.diversity:g}; expected neighbours >= 1, queue >= 1 and no negative weight"
            )


class AdaContrast(AdaptingMethod):
    """A student learns pseudo-labels of its neighbourhood and keeps windows of other labels apart."""

    Config: ClassVar[type[MethodConfig]] = AdaContrastConfig
    summary: ClassVar[str] = "AdaContrast: pseudo-labels refined by neighbours, with a contrast between labels"

    def start(self) -> None:
        """Copy student and momentum model from the source, and empty bank and queue."""
        self._student = self.copy_network(trainable=True)
        self._momentum_model = self.copy_network(trainable=False)
        self.networks = {"student": self._student, "momentum": self._momentum_model}
        self.optimizers = {"student": make_adam(self._student.parameters(), self.config.lr)}
        width, classes = self._student.feature_width, len(self.bundle.manifest.classes)
        self.memory = {
            "bank_features": torch.empty(0, width, device=self.device),
            "bank_probabilities": torch.empty(0, classes, device=self.device),
            "queue_keys": torch.empty(0, width, device=self.device),
            "queue_labels": torch.empty(0, dtype=torch.int64, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the student's class probabilities."""
        return torch.softmax(self._student(x.to(self.device, torch.float32)), dim=1)

    def _step(self, x: Tensor) -> StepOutput:
        # Online pseudo-label refinement: the student speaks of the weak view, its neighbours correct what it learns.
        with torch.no_grad():
            features, scores = _pass(self._student, x)
            probabilities = torch.softmax(scores, dim=1)
            pseudo_label = self._refine(features, probabilities).argmax(dim=1)

        # Joint contrastive learning: of two strong views, a query of the student and a key of the momentum model.
        deviation = cast(Tensor, self._student.frontend.deviation)
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
        self.optimizers["student"].zero_grad()
        torch.autograd.backward(loss)
        self.optimizers["student"].step()
        update_ema(self._momentum_model, self._student, self.config.momentum)

        # What was seen is remembered last: no window may vouch for itself.
        self._push("bank_features", bank_features)
        self._push("bank_probabilities", torch.softmax(bank_scores, dim=1))
        self._push("queue_keys", key)
        self._push("queue_labels", pseudo_label)

        evidence = {"entropy": entropy(scores), "pseudo_label": pseudo_label}
        return StepOutput(probabilities, torch.ones_like(pseudo_label, dtype=torch.bool), evidence)

    def _refine(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """Return the mean probabilities of the nearest features in the bank; a window's own while it is empty."""
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
    """Return unit features, whose products are cosines, and class scores."""
    features = network.features(x)
    return normalize(features, dim=1), network.classify(features)


def _entropy_of_mean(scores: Tensor) -> Tensor:
    """Return the entropy of the mean probabilities of a batch."""
    # The logarithm of a mean of softmaxes, taken among logarithms: no class can underflow to log 0.
    log_mean = scores.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(scores))
    return -(log_mean.exp() * log_mean).sum()
