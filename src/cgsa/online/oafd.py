"""OAFD-style: a teacher with noisy input, and features attracted to the centroids of recent batches.

Probably "Online Adaptive Fault Diagnosis With Test-Time Domain Adaptation",
IEEE Transactions on Industrial Informatics, 2024, doi 10.1109/TII.2024.3438240.

A second-hand reading: neither the article nor its authors' code was available,
only an outline by others. Student, averaged teacher, noise, bank and centroid
loss follow that outline; their sizes are our choice. Results must be reported
as "OAFD-style". Poisson noise is left out, since vibration is signed and
Poisson counts are not. All weights are updated.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, one_hot

from cgsa.nn.augment import gaussian_noise, impulse_noise_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, soft_cross_entropy
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class OafdConfig(MethodConfig):
    """Settings of the OAFD-style method."""

    lr: float = 1e-4
    """Learning rate of Adam; our choice, to be tuned from 1e-5."""
    momentum: float = 0.999
    """Share of the teacher kept per batch, as in CoTTA; 0.9 and 0.99 suit short streams."""
    noise: float = 0.05
    """Gaussian noise in the teacher's input, in deviations of the channel; our choice, as in the strong view."""
    impulses: float = 0.01
    """Share of samples in the teacher's input replaced by impulses (salt and pepper); our choice."""
    bank: int = 5
    """Batches whose features and pseudo-labels are kept. The centroid loss starts when the bank is full: with 5, in the
    6th batch."""
    centroid: float = 0.1
    """lambda_c, weight of the centroid loss; our choice between 0.1 and 1. Zero leaves it out."""

    def __post_init__(self) -> None:
        self.check(
            *("lr", "noise", "bank", "centroid"),
            valid=self.lr > 0 and self.noise >= 0 and self.bank >= 1 and self.centroid >= 0,
            expected="lr > 0, noise >= 0, bank >= 1 and centroid >= 0",
        )
        valid = 0 <= self.momentum <= 1 and 0 <= self.impulses <= 1
        self.check("momentum", "impulses", valid=valid, expected="numbers from 0 to 1")


class Oafd(AdaptingMethod):
    """A student learns from a teacher with noisy input and keeps features of equal pseudo-label together."""

    Config = OafdConfig
    summary = "OAFD-style (second-hand reading): teacher with noisy input, centroids of recent batches"

    def start(self) -> None:
        """Copy student and teacher from the source; the bank is empty."""
        self._student = self.add_network("student", self.config.lr)
        self._teacher = self.add_network("teacher")
        # Batches may differ in size, so each row of the bank has the number of its batch.
        self.memory = {
            "bank_features": torch.empty(0, self._student.feature_width, device=self.device),
            "bank_labels": torch.empty(0, dtype=torch.int64, device=self.device),
            "bank_batches": torch.empty(0, dtype=torch.int64, device=self.device),
            "batches": torch.zeros((), dtype=torch.int64, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's class probabilities of noisy windows."""
        # Noise is drawn from a copy of the generator: the next step must draw the same.
        noisy = self._add_noise(x.to(self.device, torch.float32), self.generator.clone_state())
        return torch.softmax(self._teacher(noisy), dim=1)

    def _step(self, x: Tensor) -> StepOutput:
        # The teacher predicts from noisy input.
        with torch.no_grad():
            teacher_scores = self._teacher(self._add_noise(x, self.generator))
            probabilities = torch.softmax(teacher_scores, dim=1)
            pseudo_label = probabilities.argmax(dim=1)

        # The student learns the teacher's predictions from clean input. Its features keep their graph for the centroid
        # loss.
        features = self._student.features(x)
        loss = soft_cross_entropy(probabilities, self._student.classify(features)).mean()

        # Centroid loss: features are attracted to the centroid of their pseudo-label in the bank.
        distance = self._centroid_distance(features, pseudo_label)
        known = ~distance.detach().isnan()
        if bool(known.any()):
            loss = loss + self.config.centroid * distance[known].mean()

        minimise(self.optimizers["student"], loss)
        update_ema(self._teacher, self._student, self.config.momentum)
        self._add_to_bank(features.detach(), pseudo_label)

        evidence = {
            "entropy": entropy(teacher_scores),
            "pseudo_label": pseudo_label,
            "centroid_distance": distance.detach(),
        }
        return StepOutput(probabilities, torch.ones_like(known), evidence)

    def _add_noise(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return windows with Gaussian noise and impulses."""
        deviation = self._teacher.frontend.deviation
        noisy = x + gaussian_noise(x, deviation, generator, size=self.config.noise)
        return impulse_noise_view(noisy, deviation, generator, share=self.config.impulses)

    def _centroid_distance(self, features: Tensor, pseudo_label: Tensor) -> Tensor:
        """Return 1 - cos(feature, centroid); NaN before the bank is full and for classes that it lacks."""
        if int(self.memory["batches"]) < self.config.bank:
            return torch.full_like(pseudo_label, torch.nan, dtype=features.dtype)
        member = one_hot(self.memory["bank_labels"], len(self.bundle.manifest.classes)).to(features.dtype)
        count = member.sum(dim=0)
        centroids = member.T @ self.memory["bank_features"] / count.clamp(min=1)[:, None]
        distance = 1 - cosine_similarity(features, centroids[pseudo_label], dim=1)
        return torch.where(count[pseudo_label] > 0, distance, torch.nan)

    def _add_to_bank(self, features: Tensor, pseudo_label: Tensor) -> None:
        """Add a batch to the bank and drop the oldest."""
        batches = self.memory["batches"] + 1
        number = torch.cat([self.memory["bank_batches"], batches.expand(len(features))])
        recent = number > batches - self.config.bank
        self.memory = {
            "bank_features": torch.cat([self.memory["bank_features"], features])[recent],
            "bank_labels": torch.cat([self.memory["bank_labels"], pseudo_label])[recent],
            "bank_batches": number[recent],
            "batches": batches,
        }
