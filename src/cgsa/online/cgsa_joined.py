"""CGSA with verdicts joined over time: a machine that changes rarely corrects the single windows of its frozen model.

Algorithm 1 lets a student learn the pseudo-labels of single windows, which it accepts one by one. On the machines of
`docs/methods.md`, a perfect choice of them would gain fifteen points, and the choice by residual and confidence gains
one: a frozen model is as confident where it is wrong. What tells right from wrong labels is time. A machine stays in
its state for many windows, so a label that agrees with the windows before and after it is nearly always right.

Four things differ from :mod:`cgsa.online.cgsa`:

- *Joined beliefs.* The frozen model's probabilities are the observations of a Markov chain that rarely changes state.
  The belief of a window joins it with those before it and those after it in its batch (:mod:`cgsa.online.joining`).
  This is the diagnosis of single windows. Decisions join the frozen model's windows themselves, each once.
- *Selection.* A window is reliable if its residual response is steady, its belief certain, and the frozen model's label
  of the window that of the belief.
- *Anchor.* After each step, the student's weights are pulled toward the source model.
- *Guard.* Long stages of one class make a student forget the others, so its lead over the frozen model is measured
  before each update, class by class, by the joined beliefs. It shares in the evidence only while it leads in every
  class that the stream has shown, which must be two at least. Otherwise, the frozen model speaks alone.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.engines.base import ResponseQueue
from cgsa.nn.deviation import QUEUE
from cgsa.nn.ema import update_ema
from cgsa.nn.optim import minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE, split_by_condition
from cgsa.online.gate import ReliabilityGate, residual_threshold
from cgsa.online.joining import LEAST_PROBABILITY, Joining


@dataclass(frozen=True)
class CgsaJoinedConfig(MethodConfig):
    """Settings of CGSA with joined verdicts; ours, unless noted."""

    lr: float = 5e-4
    """eta, the learning rate of Adam, as in the paper."""
    queue: int = QUEUE
    """W, the capacity of the response queue, as in the paper."""
    tau: float | Literal["auto"] = "auto"
    """tau_mu, the upper bound on the deviation of a consistent window. ``auto`` takes the deviation that ``auto_share``
    of the training windows do not exceed; the paper has 0.05."""
    auto_share: float = 0.5
    """Share of the training windows that are consistent with tau ``auto``."""
    min_belief: float = 0.9
    """Least joined belief of a label that the student may learn."""
    change: float = 0.1
    """Probability that the state changes within one window length."""
    source_momentum: float = 0.99
    """Share of the student kept after an update; the rest is the source's."""
    lead_momentum: float = 0.9
    """Share of the student's lead kept per batch."""
    student_share: float = 0.5
    """Share of the student in the log-probabilities of a window while it leads; 0 leaves the student out."""

    def __post_init__(self) -> None:
        tau = 1.0 if isinstance(self.tau, str) else self.tau
        self.check(
            *("lr", "queue", "tau", "auto_share"),
            valid=self.lr > 0 and self.queue >= 1 and tau > 0 and 0 < self.auto_share <= 1,
            expected="lr > 0, queue >= 1, tau > 0 and 0 < auto_share <= 1",
        )
        self.check(
            *("change", "min_belief"),
            valid=0 < self.change < 1 and 0 <= self.min_belief < 1,
            expected="0 < change < 1 and 0 <= min_belief < 1",
        )
        shares = (self.source_momentum, self.lead_momentum, self.student_share)
        self.check(
            *("source_momentum", "lead_momentum", "student_share"),
            valid=all(0 <= share <= 1 for share in shares),
            expected="shares from 0 to 1",
        )


class CgsaJoined(AdaptingMethod):
    """The frozen model joined over time, and a student that speaks while it is better in every class."""

    Config = CgsaJoinedConfig
    summary = "CGSA beyond the paper: windows joined over time, a student that is heard only while it leads"
    needs = frozenset({"discriminator"})

    def start(self) -> None:
        """Copy the frozen model and the student; nothing is known of the machine but that it is probably healthy."""
        config: CgsaJoinedConfig = self.config
        manifest = self.bundle.manifest
        self.conditions = [condition.name for condition in manifest.conditions]
        tau = residual_threshold(config.tau, config.auto_share, self.bundle)
        self.gate = ReliabilityGate(config.queue, tau, config.min_belief)
        self._source = self.copy_network(trainable=False)
        self._student = self.add_network("student", config.lr)
        self._discriminator = deepcopy(self.bundle.require_discriminator()).to(self.device)
        self._joining = Joining.of(manifest, config.change, self.device)
        states = len(manifest.classes)
        queue = ResponseQueue.empty(config.queue, len(self.conditions), device=self.device)
        self.memory = {
            "responses": queue.responses,
            "filled": queue.filled,
            "beliefs": self._joining.start(),
            "source_beliefs": self._joining.start(),
            "lead": torch.zeros(states, device=self.device),
            "seen": torch.zeros(states, dtype=torch.bool, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the diagnosis of a batch as the next one of the stream."""
        x = x.to(self.device, torch.float32)
        mixed = self._mixed(self._source(x).log_softmax(dim=1), self._student(x).log_softmax(dim=1))
        return self._joining.join(mixed, self.memory["beliefs"])[0].float()

    def _step(self, x: Tensor) -> StepOutput:
        return self._diagnose(x, learn=True)

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self._diagnose(x, learn=False)

    def _diagnose(self, x: Tensor, *, learn: bool) -> StepOutput:
        # Eqs. (6) to (8): the frozen source model. The belief of its windows joined over time replaces its confidence.
        with torch.no_grad():
            features = self._source.features(x)
            source = self._source.classify(features).log_softmax(dim=1)
            response = self._discriminator.response(features)
        joined, source_beliefs = self._joining.join(source, self.memory["source_beliefs"])
        belief, label = joined.max(dim=1)
        # Eqs. (9) to (11): the reliable set.
        queue = ResponseQueue(self.memory["responses"], self.memory["filled"])
        selection, queue = self.gate.select(queue, response, belief)
        accepted = selection.accepted & (source.argmax(dim=1) == label)
        # Eq. (5): the diagnosis, from the student before its update, if it is heard at all.
        scores = self._student(x)
        student = scores.detach().log_softmax(dim=1)
        reported, beliefs = self._joining.join(self._mixed(source, student), self.memory["beliefs"])
        if learn:
            self.memory |= {"responses": queue.responses, "filled": queue.filled}
            self.memory |= {"beliefs": beliefs, "source_beliefs": source_beliefs}
            self._compare(source, student, label, belief > self.config.min_belief)
            self._learn(scores[accepted], label[accepted])
        evidence = {
            **split_by_condition("response", self.conditions, response),
            **split_by_condition("queue_mean", self.conditions, selection.queue_mean),
            "deviation": selection.deviation,
            "confidence": belief,
            "pseudo_label": label,
            AGREES_WITH_SOURCE: reported.argmax(dim=1) == source.argmax(dim=1),
        }
        accepted = accepted if learn else torch.zeros_like(accepted)
        return StepOutput(reported.float(), accepted, evidence, unjoined=source.exp())

    def _mixed(self, source: Tensor, student: Tensor) -> Tensor:
        """Return the log-probabilities of windows: the frozen model's, with a share of the student's while it leads."""
        seen, lead = self.memory["seen"], self.memory["lead"]
        heard = (seen.sum() >= 2) & ((lead > 0) | ~seen).all()
        return torch.lerp(source, student, float(heard) * self.config.student_share).log_softmax(dim=1)

    def _compare(self, source: Tensor, student: Tensor, label: Tensor, certain: Tensor) -> None:
        """Update the student's lead over the frozen model in each class, in nats per window."""
        for number in sorted(set(label[certain].tolist())):
            chosen = certain & (label == number)
            gain = self._margin(student[chosen], number) - self._margin(source[chosen], number)
            before = self.memory["lead"][number] if self.memory["seen"][number] else gain
            self.memory["lead"][number] = torch.lerp(gain, before, self.config.lead_momentum)
            self.memory["seen"][number] = True

    def _margin(self, log_probabilities: Tensor, label: int) -> Tensor:
        """Return by how much joined windows favour a label over its strongest rival.

        Windows add their logarithms when they are joined, so errors that scatter over the other classes cost little.
        """
        joined = log_probabilities.clamp(min=math.log(LEAST_PROBABILITY)).mean(dim=0)
        return joined[label] - torch.cat([joined[:label], joined[label + 1 :]]).max()

    def _learn(self, scores: Tensor, label: Tensor) -> None:
        """Take one step on the reliable windows, eqs. (12) and (13), then pull the student toward the source model."""
        if len(label):
            minimise(self.optimizers["student"], cross_entropy(scores, label))
            update_ema(self._student, self._source, self.config.source_momentum)
