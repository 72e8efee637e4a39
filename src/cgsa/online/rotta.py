"""RoTTA: a small class-balanced memory of windows that are recent and certain.

L. Yuan, B. Xie and S. Li, "Robust Test-Time Adaptation in Dynamic Scenarios",
CVPR 2023.

Its robust batch normalisation does not apply, since the network has no
BatchNorm: all weights are updated. The strong view of vibration windows
replaces the strong augmentation of images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.nn.augment import strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, soft_cross_entropy
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class RottaConfig(MethodConfig):
    """Settings of RoTTA, as in its authors' code."""

    lr: float = 1e-3
    """Learning rate of Adam. The authors train BatchNorm only; all weights may need less."""
    momentum: float = 0.999
    """1 - nu, share of the teacher kept per update; 0.9 and 0.99 suit short streams."""
    capacity: int = 64
    """N, windows in the memory."""
    update_every: int = 64
    """Windows from one update to the next; a batch of 256 has four updates."""
    lambda_t: float = 1.0
    """Weight of age in the score by which windows are replaced."""
    lambda_u: float = 1.0
    """Weight of uncertainty in that score."""

    def __post_init__(self) -> None:
        self.check(
            *("lr", "capacity", "update_every"),
            valid=self.lr > 0 and self.capacity >= 1 and self.update_every >= 1,
            expected="lr > 0, capacity >= 1 and update_every >= 1",
        )
        self.check(
            *("momentum", "lambda_t", "lambda_u"),
            valid=0 <= self.momentum <= 1 and self.lambda_t >= 0 and self.lambda_u >= 0,
            expected="momentum from 0 to 1, lambda_t >= 0 and lambda_u >= 0",
        )


class Rotta(AdaptingMethod):
    """A student learns its teacher's labels of a memory with all classes; the teacher predicts."""

    Config = RottaConfig
    summary = "RoTTA: averaged teacher, class-balanced memory by age and uncertainty"
    predicts_with = "teacher"

    def start(self) -> None:
        """Copy student and teacher from the source; the memory is empty."""
        self._student = self.add_network("student", self.config.lr)
        self._teacher = self.add_network("teacher")
        slots, manifest = self.config.capacity, self.bundle.manifest
        self.memory = {
            "windows": torch.zeros(slots, len(manifest.channels), manifest.window.length, device=self.device),
            "valid": torch.zeros(slots, dtype=torch.bool, device=self.device),
            "label": torch.zeros(slots, dtype=torch.int64, device=self.device),
            "uncertainty": torch.zeros(slots, dtype=torch.float64, device=self.device),
            "age": torch.zeros(slots, dtype=torch.int64, device=self.device),
            "since_update": torch.zeros((), dtype=torch.int64, device=self.device),
        }

    def _step(self, x: Tensor) -> StepOutput:
        # The teacher predicts; its pseudo-labels and entropies decide which windows enter the memory.
        with torch.no_grad():
            scores = self._teacher(x)
        probabilities, uncertainty = torch.softmax(scores, dim=1), entropy(scores)
        pseudo_label = probabilities.argmax(dim=1)

        # The batch is processed in chunks, each of which ends where an update is due.
        accepted = torch.zeros(len(x), dtype=torch.bool, device=self.device)
        begin, waiting = 0, int(self.memory["since_update"])
        while begin < len(x):
            end = min(len(x), begin + self.config.update_every - waiting)
            chunk = slice(begin, end)
            accepted[chunk] = self._add_to_memory(x[chunk], pseudo_label[chunk], uncertainty[chunk])
            waiting += end - begin
            if waiting == self.config.update_every:
                self._learn()
                waiting = 0
            begin = end
        self.memory["since_update"].fill_(waiting)

        return StepOutput(probabilities, accepted, {"entropy": uncertainty, "pseudo_label": pseudo_label})

    def _add_to_memory(self, x: Tensor, pseudo_label: Tensor, uncertainty: Tensor) -> Tensor:
        """Offer windows to the memory in their order; return which ones were accepted.

        Each window is compared with a memory that the one before it has changed, so the rule cannot be applied to all
        at once. It runs on the CPU with a few numbers per slot; the windows themselves are copied once.
        """
        valid, label, slot_uncertainty, age = (self.memory[name].cpu().numpy().copy() for name in _SLOT_VALUES)
        config, classes = self.config, len(self.bundle.manifest.classes)
        memory = _Memory(valid, label, slot_uncertainty, age, classes, config.lambda_t, config.lambda_u)
        slots = [memory.offer(*offer) for offer in zip(pseudo_label.tolist(), uncertainty.tolist(), strict=True)]

        # A slot may have been filled several times; its last window stays.
        last = {slot: number for number, slot in enumerate(slots) if slot is not None}
        self.memory["windows"][list(last)] = x[list(last.values())]
        for name in _SLOT_VALUES:
            self.memory[name].copy_(torch.from_numpy(getattr(memory, name)))
        return torch.tensor([slot is not None for slot in slots], device=self.device)

    def _learn(self) -> None:
        """Train the student on the memory, weighted by recency, and update the teacher."""
        valid = self.memory["valid"]
        windows = self.memory["windows"][valid]
        view = strong_view(windows, self._student.frontend.deviation, self.generator)
        with torch.no_grad():
            target = torch.softmax(self._teacher(windows), dim=1)
        # Timeliness: exp(-a) / (1 + exp(-a)), with the age a in units of the capacity.
        timeliness = torch.sigmoid(-self.memory["age"][valid].to(torch.float32) / self.config.capacity)
        loss = (timeliness * soft_cross_entropy(target, self._student(view))).mean()
        minimise(self.optimizers["student"], loss)
        update_ema(self._teacher, self._student, self.config.momentum)


_SLOT_VALUES = ("valid", "label", "uncertainty", "age")
"""Values that the memory keeps per slot besides the window."""


@dataclass
class _Memory:
    """Category-balanced sampling with timeliness and uncertainty (CSTU), on the values of each slot."""

    valid: npt.NDArray[np.bool_]
    label: npt.NDArray[np.int64]
    uncertainty: npt.NDArray[np.float64]
    age: npt.NDArray[np.int64]
    classes: int
    lambda_t: float
    lambda_u: float

    def offer(self, label: int, uncertainty: float) -> int | None:
        """Put a window into a slot and return the slot, or None if it is rejected; all windows in memory age."""
        slot = self._find_slot(label, uncertainty)
        if slot is not None:
            self.valid[slot], self.label[slot], self.uncertainty[slot], self.age[slot] = True, label, uncertainty, 0
        self.age[self.valid] += 1
        return slot

    def _find_slot(self, label: int, uncertainty: float) -> int | None:
        counts = np.bincount(self.label[self.valid], minlength=self.classes)
        if counts[label] >= len(self.valid) / self.classes:
            # The class has its share: the window must replace one of its class.
            rivals = self.valid & (self.label == label)
        elif self.valid.all():
            # The class has room but the memory is full: replace a window of the largest classes.
            rivals = counts[self.label] == counts.max()
        else:
            return int(np.argmin(self.valid))
        score = np.where(rivals, self._score(self.age, self.uncertainty), -np.inf)
        worst = int(np.argmax(score))
        return worst if score[worst] > self._score(0, uncertainty) else None

    def _score(self, age: npt.ArrayLike, uncertainty: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the heuristic score H: high for old or uncertain windows."""
        timeliness = self.lambda_t / (1 + np.exp(-np.asarray(age) / len(self.valid)))
        return np.asarray(timeliness + self.lambda_u * np.asarray(uncertainty) / math.log(self.classes))
