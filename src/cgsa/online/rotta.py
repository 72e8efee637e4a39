"""RoTTA: a small memory, balanced over classes, of windows that are recent and sure.

L. Yuan, B. Xie and S. Li, "Robust Test-Time Adaptation in Dynamic Scenarios",
CVPR 2023.

Its robust batch normalisation is void here, since the network has no
BatchNorm: all weights are updated. The strong augmentation of images is the
strong view of vibration windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, soft_cross_entropy
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class RottaConfig(MethodConfig):
    """Settings of RoTTA, as in its authors' code."""

    lr: float = 1e-3
    """Learning rate of Adam. The authors train BatchNorm alone; all weights may want less."""
    momentum: float = 0.999
    """1 - nu, how much of the teacher is kept an update; 0.9 and 0.99 suit short streams."""
    capacity: int = 64
    """N, windows in the memory."""
    update_every: int = 64
    """Windows seen from one update to the next; a batch of 256 holds four updates."""
    lambda_t: float = 1.0
    """Weight of age in the score by which windows leave the memory."""
    lambda_u: float = 1.0
    """Weight of uncertainty in that score."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.capacity < 1 or self.update_every < 1:
            raise ConfigError(
                f"lr {self.lr:g}, capacity {self.capacity}, update_every {self.update_every}; "
                f"expected lr > 0, capacity >= 1 and update_every >= 1"
            )
        if not 0 <= self.momentum <= 1 or self.lambda_t < 0 or self.lambda_u < 0:
            raise ConfigError(
                f"momentum {self.momentum:g}, lambda_t {self.lambda_t:g}, lambda_u {self.lambda_u:g}; "
                f"expected momentum from 0 to 1, lambda_t >= 0 and lambda_u >= 0"
            )


class Rotta(AdaptingMethod):
    """A student learns its teacher's labels of a memory that holds every class; the teacher speaks."""

    Config: ClassVar[type[MethodConfig]] = RottaConfig
    summary: ClassVar[str] = "RoTTA: averaged teacher, class-balanced memory by age and uncertainty"

    def start(self) -> None:
        """Copy student and teacher from the source, and empty the memory."""
        self._student = self.copy_network(trainable=True)
        self._teacher = self.copy_network(trainable=False)
        self.networks = {"student": self._student, "teacher": self._teacher}
        self.optimizers = {"student": make_adam(self._student.parameters(), self.config.lr)}
        slots, about = self.config.capacity, self.bundle.manifest
        self.memory = {
            "windows": torch.zeros(slots, len(about.channels), about.window.length, device=self.device),
            "valid": torch.zeros(slots, dtype=torch.bool, device=self.device),
            "label": torch.zeros(slots, dtype=torch.int64, device=self.device),
            "uncertainty": torch.zeros(slots, dtype=torch.float64, device=self.device),
            "age": torch.zeros(slots, dtype=torch.int64, device=self.device),
            "since_update": torch.zeros((), dtype=torch.int64, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the teacher's class probabilities."""
        return torch.softmax(self._teacher(x.to(self.device, torch.float32)), dim=1)

    def _step(self, x: Tensor) -> StepOutput:
        # The teacher speaks; its pseudo-labels and entropies decide who enters the memory.
        with torch.no_grad():
            scores = self._teacher(x)
        probabilities, uncertainty = torch.softmax(scores, dim=1), entropy(scores)
        pseudo_label = probabilities.argmax(dim=1)

        # The batch is walked through in stretches that end where an update is due.
        accepted = torch.zeros(len(x), dtype=torch.bool, device=self.device)
        begin, waiting = 0, int(self.memory["since_update"])
        while begin < len(x):
            end = min(len(x), begin + self.config.update_every - waiting)
            stretch = slice(begin, end)
            accepted[stretch] = self._remember(x[stretch], pseudo_label[stretch], uncertainty[stretch])
            waiting += end - begin
            if waiting == self.config.update_every:
                self._learn()
                waiting = 0
            begin = end
        self.memory["since_update"].fill_(waiting)

        return StepOutput(probabilities, accepted, {"entropy": uncertainty, "pseudo_label": pseudo_label})

    def _remember(self, x: Tensor, pseudo_label: Tensor, uncertainty: Tensor) -> Tensor:
        """Offer windows to the memory in their order; return which ones were taken.

        Each window is judged by a memory that the one before it has changed and aged, so the rule cannot be
        applied to all at once. It runs on the CPU over a few numbers a slot; the windows themselves move once.
        """
        valid, label, unsure, age = (self.memory[name].cpu().numpy().copy() for name in _NUMBERS)
        config, classes = self.config, len(self.bundle.manifest.classes)
        memory = _Memory(valid, label, unsure, age, classes, config.lambda_t, config.lambda_u)
        offers = zip(pseudo_label.tolist(), uncertainty.tolist(), strict=True)
        slots = [memory.offer(*offer) for offer in offers]

        # A slot may have been taken several times; the last window stays.
        last = {slot: place for place, slot in enumerate(slots) if slot is not None}
        self.memory["windows"][list(last)] = x[list(last.values())]
        for name in _NUMBERS:
            self.memory[name].copy_(torch.from_numpy(getattr(memory, name)))
        return torch.tensor([slot is not None for slot in slots], device=self.device)

    def _learn(self) -> None:
        """Teach the student the memory, recent windows most, and let the teacher follow."""
        valid = self.memory["valid"]
        windows = self.memory["windows"][valid]
        view = strong_view(windows, cast(Tensor, self._student.frontend.deviation), self.generator)
        with torch.no_grad():
            target = torch.softmax(self._teacher(windows), dim=1)
        # Timeliness: exp(-a) / (1 + exp(-a)), with the age a in memories.
        timeliness = torch.sigmoid(-self.memory["age"][valid].to(torch.float32) / self.config.capacity)
        loss = (timeliness * soft_cross_entropy(target, self._student(view))).mean()
        self.optimizers["student"].zero_grad()
        torch.autograd.backward(loss)
        self.optimizers["student"].step()
        update_ema(self._teacher, self._student, self.config.momentum)


_NUMBERS = ("valid", "label", "uncertainty", "age")
"""What the memory knows of each slot beside the window in it."""


@dataclass
class _Memory:
    """Category-balanced sampling with timeliness and uncertainty (CSTU), over the numbers of each slot."""

    valid: npt.NDArray[np.bool_]
    label: npt.NDArray[np.int64]
    uncertainty: npt.NDArray[np.float64]
    age: npt.NDArray[np.int64]
    classes: int
    lambda_t: float
    lambda_u: float

    def offer(self, label: int, uncertainty: float) -> int | None:
        """Take a window into a slot and return it, or none where it is refused; all that is kept grows older."""
        slot = self._find_slot(label, uncertainty)
        if slot is not None:
            self.valid[slot], self.label[slot], self.uncertainty[slot], self.age[slot] = True, label, uncertainty, 0
        self.age[self.valid] += 1
        return slot

    def _find_slot(self, label: int, uncertainty: float) -> int | None:
        counts = np.bincount(self.label[self.valid], minlength=self.classes)
        if counts[label] >= len(self.valid) / self.classes:
            # The class has its share: a window must drive out one of its own kind.
            rivals = self.valid & (self.label == label)
        elif self.valid.all():
            # The class has room but the memory has none: the largest classes give way.
            rivals = counts[self.label] == counts.max()
        else:
            return int(np.argmin(self.valid))
        score = np.where(rivals, self._score(self.age, self.uncertainty), -np.inf)
        worst = int(np.argmax(score))
        return worst if score[worst] > self._score(0, uncertainty) else None

    def _score(self, age: npt.ArrayLike, uncertainty: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the heuristic score H: high for what is old or unsure."""
        timeliness = self.lambda_t / (1 + np.exp(-np.asarray(age) / len(self.valid)))
        return np.asarray(timeliness + self.lambda_u * np.asarray(uncertainty) / math.log(self.classes))
