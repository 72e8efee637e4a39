"""CoTTA: continual adaptation under an averaged teacher, with weights restored at random.

Q. Wang, O. Fink, L. Van Gool and D. Dai, "Continual Test-Time Domain
Adaptation", CVPR 2022.

Its image augmentations are replaced by the strong view of vibration windows,
without the clipping to [0, 1] that only pixels need. There is no BatchNorm: all
weights are updated, and all may be restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import soft_cross_entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class CottaConfig(MethodConfig):
    """Settings of CoTTA."""

    lr: float = 1e-4
    """Learning rate of Adam. The authors take 1e-3 on images; the method is very sensitive to it: tune from 1e-5."""
    momentum: float = 0.999
    """alpha, how much of the teacher is kept a batch, as in the authors' code; 0.9 and 0.99 suit short streams."""
    restore: float = 0.01
    """p, the chance of each weight to go back to the source after a batch, as in the authors' code for CIFAR."""
    views: int = 32
    """N, views that the teacher averages where the source model is unsure."""
    p_th: float | None = None
    """Mean confidence of the source model below which the teacher averages views; none takes the authors' rule: what
    95 % of the training windows reach, less 0.05."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.views < 1:
            raise ConfigError(f"lr {self.lr:g}, views {self.views}; expected lr > 0 and views >= 1")
        shares = {"momentum": self.momentum, "restore": self.restore, "p_th": self.p_th or 0.0}
        wrong = [f"{name} {value:g}" for name, value in shares.items() if not 0 <= value <= 1]
        if wrong:
            raise ConfigError(f"{', '.join(wrong)}; expected a number from 0 to 1")


class Cotta(AdaptingMethod):
    """A student learns from its averaged teacher and is partly put back to the source after each batch."""

    Config: ClassVar[type[MethodConfig]] = CottaConfig
    summary: ClassVar[str] = "CoTTA: averaged teacher, views where unsure, weights restored at random"

    def start(self) -> None:
        """Freeze the source model as anchor; copy student and teacher from it."""
        self._p_th = self._threshold()
        self._anchor = self.copy_network(trainable=False)
        self._student = self.copy_network(trainable=True)
        self._teacher = self.copy_network(trainable=False)
        self.networks = {"student": self._student, "teacher": self._teacher}
        self.optimizers = {"student": make_adam(self._student.parameters(), self.config.lr)}

    def _threshold(self) -> float:
        """Return p_th: as set, by the rule, or the authors' value for CIFAR-10 where a bundle does not tell."""
        if self.config.p_th is not None:
            return float(self.config.p_th)
        usual = self.bundle.manifest.usual_confidence
        return 0.92 if usual is None else max(0.0, usual - 0.05)

    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's class probabilities, averaged over views where the source model is unsure."""
        # Views are drawn from a copy of the random numbers: the next step must draw the same ones.
        return self._teach(x.to(self.device, torch.float32), self.generator.clone_state())[0]

    def _step(self, x: Tensor) -> StepOutput:
        # Pseudo-labels, averaged over weights and, where needed, over views: the teacher speaks.
        probabilities, anchor_confidence = self._teach(x, self.generator)

        # Consistency: the student learns what the teacher said.
        loss = soft_cross_entropy(probabilities, self._student(x)).mean()
        self.optimizers["student"].zero_grad()
        torch.autograd.backward(loss)
        self.optimizers["student"].step()

        # Weight average: the teacher follows, before anything of the student is restored.
        update_ema(self._teacher, self._student, self.config.momentum)
        self._restore()

        evidence = {"anchor_confidence": anchor_confidence, "confidence": probabilities.amax(dim=1)}
        return StepOutput(probabilities, torch.ones_like(anchor_confidence, dtype=torch.bool), evidence)

    @torch.no_grad()
    def _teach(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the teacher's probabilities and the source model's confidence in each window."""
        anchor_confidence = torch.softmax(self._anchor(x), dim=1).amax(dim=1)
        probabilities = torch.softmax(self._teacher(x), dim=1)
        # Views cost many passes, so they wait for a batch of which the source model is unsure.
        if bool(anchor_confidence.mean() < self._p_th):
            probabilities = self._average_views(x, generator)
        return probabilities, anchor_confidence

    def _average_views(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the teacher's mean probabilities over views: the augmentation-averaged pseudo-labels.

        Probabilities are averaged, as the paper writes it; its authors' code averages scores.
        """
        deviation = cast(Tensor, self._teacher.frontend.deviation)
        probabilities = torch.zeros(len(x), len(self.bundle.manifest.classes), device=self.device)
        for _ in range(self.config.views):
            probabilities += torch.softmax(self._teacher(strong_view(x, deviation, generator)), dim=1)
        return probabilities.div_(self.config.views)

    @torch.no_grad()
    def _restore(self) -> None:
        """Put each weight of the student back to the source with a small chance: the stochastic restoration."""
        for weight, source in zip(self._student.parameters(), self._anchor.parameters(), strict=True):
            mask = torch.rand(weight.shape, device=self.device, generator=self.generator) < self.config.restore
            weight.copy_(torch.where(mask, source, weight))
