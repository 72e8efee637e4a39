"""OAFD-style: a teacher that hears noise, and features drawn to the centroids of recent batches.

Believed to be "Online Adaptive Fault Diagnosis With Test-Time Domain
Adaptation", IEEE Transactions on Industrial Informatics, 2024,
doi 10.1109/TII.2024.3438240.

A second-hand reading: neither the article nor code of its authors was at hand,
only an outline of what others made of it. Student, averaged teacher, noise,
bank and centroid loss follow that outline; their sizes are our choice. Results
must be reported as "OAFD-style". Poisson noise is left out, since vibration
has signs and Poisson counts have none. All weights are updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, one_hot

from cgsa.errors import ConfigError
from cgsa.nn.augment import gaussian_noise, impulse_noise_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, soft_cross_entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class OafdConfig(MethodConfig):
    """Settings of the OAFD-style method."""

    lr: float = 1e-4
    """Learning rate of Adam; our choice, to be tuned from 1e-5."""
    momentum: float = 0.999
    """How much of the teacher is kept a batch, as in CoTTA; 0.9 and 0.99 suit short streams."""
    noise: float = 0.05
    """Gaussian noise in the teacher's input, in deviations of the channel; our choice, as in the strong view."""
    impulses: float = 0.01
    """Share of samples in the teacher's input that are thrown to either side (salt and pepper); our choice."""
    bank: int = 5
    """Batches whose features and pseudo-labels are kept. The centroid loss begins when all of them are there: with
    5, in the 6th batch."""
    centroid: float = 0.1
    """lambda_c, weight of the centroid loss; our choice of 0.1 and 1. Zero leaves it out."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.noise < 0 or self.bank < 1 or self.centroid < 0:
            raise ConfigError(
                f"lr {self.lr:g}, noise {self.noise:g}, bank {self.bank}, centroid {self.centroid:g}; "
                f"expected lr > 0, noise >= 0, bank >= 1 and centroid >= 0"
            )
        if not 0 <= self.momentum <= 1 or not 0 <= self.impulses <= 1:
            raise ConfigError(f"momentum {self.momentum:g}, impulses {self.impulses:g}; expected numbers from 0 to 1")


class Oafd(AdaptingMethod):
    """A student learns from a teacher on noisy input, its features near those of the same pseudo-label."""

    Config: ClassVar[type[MethodConfig]] = OafdConfig
    summary: ClassVar[str] = "OAFD-style (second-hand reading): teacher on noisy input, centroids of recent batches"

    def start(self) -> None:
        """Copy student and teacher from the source, and empty the bank."""
        self._student = self.copy_network(trainable=True)
        self._teacher = self.copy_network(trainable=False)
        self.networks = {"student": self._student, "teacher": self._teacher}
        self.optimizers = {"student": make_adam(self._student.parameters(), self.config.lr)}
        # Batches may differ in size, so each row of the bank says which batch it came with.
        self.memory = {
            "bank_features": torch.empty(0, self._student.feature_width, device=self.device),
            "bank_labels": torch.empty(0, dtype=torch.int64, device=self.device),
            "bank_batches": torch.empty(0, dtype=torch.int64, device=self.device),
            "batches": torch.zeros((), dtype=torch.int64, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's class probabilities of noisy windows."""
        # Noise is drawn from a copy of the random numbers: the next step must draw the same.
        noisy = self._disturb(x.to(self.device, torch.float32), self.generator.clone_state())
        return torch.softmax(self._teacher(noisy), dim=1)

    def _step(self, x: Tensor) -> StepOutput:
        # The teacher speaks, on noisy input.
        with torch.no_grad():
            teacher_scores = self._teacher(self._disturb(x, self.generator))
            probabilities = torch.softmax(teacher_scores, dim=1)
            pseudo_label = probabilities.argmax(dim=1)

        # The student learns what the teacher said, from clean input. Its features keep their graph, or the
        # centroid loss would teach nothing.
        features = self._student.features(x)
        loss = soft_cross_entropy(probabilities, self._student.classify(features)).mean()

        # Centroid loss: features go towards the centroid of their pseudo-label in the bank.
        distance = self._centroid_distance(features, pseudo_label)
        known = ~distance.detach().isnan()
        if bool(known.any()):
            loss = loss + self.config.centroid * distance[known].mean()

        self.optimizers["student"].zero_grad()
        torch.autograd.backward(loss)
        self.optimizers["student"].step()
        update_ema(self._teacher, self._student, self.config.momentum)
        self._remember(features.detach(), pseudo_label)

        evidence = {
            "entropy": entropy(teacher_scores),
            "pseudo_label": pseudo_label,
            "centroid_distance": distance.detach(),
        }
        return StepOutput(probabilities, torch.ones_like(known), evidence)

    def _disturb(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return windows with Gaussian noise and impulses."""
        deviation = cast(Tensor, self._teacher.frontend.deviation)
        noisy = x + gaussian_noise(x, deviation, generator, size=self.config.noise)
        return impulse_noise_view(noisy, deviation, generator, share=self.config.impulses)

    def _centroid_distance(self, features: Tensor, pseudo_label: Tensor) -> Tensor:
        """Return 1 - cos(feature, centroid); NaN before the bank is full and for classes that it does not hold."""
        if int(self.memory["batches"]) < self.config.bank:
            return torch.full_like(pseudo_label, torch.nan, dtype=features.dtype)
        member = one_hot(self.memory["bank_labels"], len(self.bundle.manifest.classes)).to(features.dtype)
        count = member.sum(dim=0)
        centroids = member.T @ self.memory["bank_features"] / count.clamp(min=1)[:, None]
        distance = 1 - cosine_similarity(features, centroids[pseudo_label], dim=1)
        return torch.where(count[pseudo_label] > 0, distance, torch.nan)

    def _remember(self, features: Tensor, pseudo_label: Tensor) -> None:
        """Push a batch into the bank and drop the one that is too old."""
        batches = self.memory["batches"] + 1
        number = torch.cat([self.memory["bank_batches"], batches.expand(len(features))])
        recent = number > batches - self.config.bank
        self.memory = {
            "bank_features": torch.cat([self.memory["bank_features"], features])[recent],
            "bank_labels": torch.cat([self.memory["bank_labels"], pseudo_label])[recent],
            "bank_batches": number[recent],
            "batches": batches,
        }
