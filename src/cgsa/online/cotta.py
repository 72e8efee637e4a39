"""CoTTA: continual adaptation with an averaged teacher and stochastic restoration of weights.

Q. Wang, O. Fink, L. Van Gool and D. Dai, "Continual Test-Time Domain
Adaptation", CVPR 2022.

Its image augmentations are replaced by the strong view of vibration windows,
without the clipping to [0, 1] that only pixels need. There is no BatchNorm, so
all weights are updated and may be restored.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import soft_cross_entropy
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class CottaConfig(MethodConfig):
    """Settings of CoTTA."""

    lr: float = 1e-4
    """Learning rate of Adam. The authors take 1e-3 on images; the method is very sensitive to it: tune from 1e-5."""
    momentum: float = 0.999
    """alpha, share of the teacher kept per batch, as in the authors' code; 0.9 and 0.99 suit short streams."""
    restore: float = 0.01
    """p, probability that a weight is restored after a batch, as in the authors' code for CIFAR."""
    views: int = 32
    """N, number of views that the teacher averages when the source model is uncertain."""
    p_th: float | None = None
    """Mean confidence of the source model below which the teacher averages views; None takes the authors' rule: the
    confidence that 95 % of the training windows reach, minus 0.05."""

    def __post_init__(self) -> None:
        self.check("lr", "views", valid=self.lr > 0 and self.views >= 1, expected="lr > 0 and views >= 1")
        for name, share in {"momentum": self.momentum, "restore": self.restore, "p_th": self.p_th or 0.0}.items():
            self.check(name, valid=0 <= share <= 1, expected="a number from 0 to 1")


class Cotta(AdaptingMethod):
    """A student learns from its averaged teacher and is partly restored to the source after each batch."""

    Config = CottaConfig
    summary = "CoTTA: averaged teacher, views if uncertain, weights restored at random"

    def start(self) -> None:
        """Freeze the source model as anchor; copy student and teacher from it."""
        self._p_th = self._threshold()
        self._anchor = self.copy_network(trainable=False)
        self._student = self.add_network("student", self.config.lr)
        self._teacher = self.add_network("teacher")

    def _threshold(self) -> float:
        """Return p_th: the setting, the rule, or the authors' value for CIFAR-10 if the bundle lacks the confidence."""
        if self.config.p_th is not None:
            return float(self.config.p_th)
        usual = self.bundle.manifest.usual_confidence
        return 0.92 if usual is None else max(0.0, usual - 0.05)

    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's class probabilities, averaged over views if the source model is uncertain."""
        # Views are drawn from a copy of the generator: the next step must draw the same ones.
        return self._predict_teacher(x.to(self.device, torch.float32), self.generator.clone_state())[0]

    def _step(self, x: Tensor) -> StepOutput:
        # Pseudo-labels: the teacher's predictions, averaged over weights and, if needed, over views.
        probabilities, anchor_confidence = self._predict_teacher(x, self.generator)

        # Consistency: the student learns the teacher's predictions.
        loss = soft_cross_entropy(probabilities, self._student(x)).mean()
        minimise(self.optimizers["student"], loss)

        # Weight average: the teacher is updated before weights of the student are restored.
        update_ema(self._teacher, self._student, self.config.momentum)
        self._restore()

        evidence = {"anchor_confidence": anchor_confidence, "confidence": probabilities.amax(dim=1)}
        return StepOutput(probabilities, torch.ones_like(anchor_confidence, dtype=torch.bool), evidence)

    @torch.no_grad()
    def _predict_teacher(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the teacher's probabilities and the source model's confidence in each window."""
        anchor_confidence = torch.softmax(self._anchor(x), dim=1).amax(dim=1)
        probabilities = torch.softmax(self._teacher(x), dim=1)
        # Views cost many passes, so they are used only for batches for which the source model is uncertain.
        if bool(anchor_confidence.mean() < self._p_th):
            probabilities = self._average_views(x, generator)
        return probabilities, anchor_confidence

    def _average_views(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the teacher's mean probabilities over views: the augmentation-averaged pseudo-labels.

        Probabilities are averaged, as the paper writes it; its authors' code averages scores.
        """
        deviation = self._teacher.frontend.deviation
        probabilities = torch.zeros(len(x), len(self.bundle.manifest.classes), device=self.device)
        for _ in range(self.config.views):
            probabilities += torch.softmax(self._teacher(strong_view(x, deviation, generator)), dim=1)
        return probabilities.div_(self.config.views)

    @torch.no_grad()
    def _restore(self) -> None:
        """Restore each weight of the student to the source with a small probability (stochastic restoration)."""
        for weight, source in zip(self._student.parameters(), self._anchor.parameters(), strict=True):
            mask = torch.rand(weight.shape, device=self.device, generator=self.generator) < self.config.restore
            weight.copy_(torch.where(mask, source, weight))
