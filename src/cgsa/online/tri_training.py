"""Tri-Training: two models that agree teach the third.

Z.-H. Zhou and M. Li, "Tri-Training: Exploiting Unlabeled Data Using Three
Classifiers", IEEE Transactions on Knowledge and Data Engineering 17(11), 2005.

The method is not test-time adaptation: it keeps using labelled training
windows, and its results must be reported as source-available. Its members are
copies of the source model, fine-tuned on bootstrap samples instead of trained
from scratch, and retraining is one step of Adam; all weights are updated.

How the method runs online is inferred from the passes in the paper's efficiency
table: nine per batch, and over a stream three backward passes with fifteen more
forward passes. Here the three members predict the batch, and each of the three
pairs predicts its own labelled windows (two passes) to measure its error. A
member is retrained at most once per stream; that takes one pass forward and
backward, and four forward to measure again the two pairs that it belongs to.
The table fits other readings too, such as one retraining per stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import make_adam, minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput

MEMBERS = 3


@dataclass(frozen=True)
class TriTrainingConfig(MethodConfig):
    """Settings of Tri-Training; the article does not give them, so they are our choice."""

    lr: float = 1e-4
    """Learning rate of Adam, in fine-tuning and in retraining."""
    labelled: int = 256
    """Training windows on which a pair is measured and a member is retrained: the batch size of the stream."""
    bootstrap_steps: int = 100
    """Steps of fine-tuning that make the members differ, each on ``labelled`` windows of a bootstrap sample."""
    retrainings: int = 1
    """Times that a member may be retrained in a stream; one fits the passes of the table."""

    def __post_init__(self) -> None:
        self.check(
            *("lr", "labelled", "bootstrap_steps", "retrainings"),
            valid=self.lr > 0 and self.labelled >= 1 and self.bootstrap_steps >= 0 and self.retrainings >= 0,
            expected="lr > 0, labelled >= 1 and the others >= 0",
        )


class TriTraining(AdaptingMethod):
    """Three members vote; if two agree with a low error, the third learns from them."""

    Config = TriTrainingConfig
    summary = "Tri-Training (uses training windows): three members, two that agree teach the third"
    needs = frozenset({"source_data"})

    def start(self) -> None:
        """Make the members; no pair has been measured yet."""
        self._members = [self._fine_tune(self.copy_network(trainable=True)) for _ in range(MEMBERS)]
        self.networks = {f"member{i}": member for i, member in enumerate(self._members)}
        self.optimizers = {
            f"member{i}": make_adam(member.parameters(), self.config.lr) for i, member in enumerate(self._members)
        }
        self.memory = {
            # e' of the article starts at one half: a pair may teach if it is right more often than not.
            "error": torch.full((MEMBERS,), 0.5, dtype=torch.float64, device=self.device),
            "taught": torch.zeros(MEMBERS, dtype=torch.int64, device=self.device),
            "retrained": torch.zeros(MEMBERS, dtype=torch.int64, device=self.device),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the members' mean class probabilities."""
        return self._vote(x.to(self.device, torch.float32)).mean(dim=0)

    def _step(self, x: Tensor) -> StepOutput:
        with torch.no_grad():
            votes = self._vote(x)
        probabilities, labels = votes.mean(dim=0), votes.argmax(dim=2)
        labelled = [self._draw() for _ in range(MEMBERS)]
        errors = [self._measure(i, *labelled[i]) for i in range(MEMBERS)]

        accepted = torch.zeros(len(x), dtype=torch.bool, device=self.device)
        for i in range(MEMBERS):
            j, k = _others(i)
            lesson = self._admit(i, errors[i], (labels[j] == labels[k]).nonzero()[:, 0])
            if len(lesson) == 0:
                continue
            source, truth = labelled[i]
            scores = self._members[i](torch.cat([source, x[lesson]]))
            minimise(self.optimizers[f"member{i}"], cross_entropy(scores, torch.cat([truth, labels[j][lesson]])))
            accepted[lesson] = True
            # Member i has changed, so the pairs that it belongs to are measured again.
            for other in (j, k):
                errors[other] = self._measure(other, *labelled[other])

        agreement = (labels == probabilities.argmax(dim=1)).to(torch.float32).mean(dim=0)
        return StepOutput(probabilities, accepted, {"agreement": agreement})

    def _vote(self, x: Tensor) -> Tensor:
        """Return the class probabilities of each member, (members, windows, classes)."""
        return torch.stack([torch.softmax(member(x), dim=1) for member in self._members])

    def _draw(self, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return random training windows, or random ones of those with indices ``among``, with their classes."""
        windows = self.require_source()
        count = len(windows) if among is None else len(among)
        index = torch.randint(count, (self.config.labelled,), device=self.device, generator=self.generator)
        index = (index if among is None else among[index]).to(windows.device)
        return windows.gather(index).to(self.device), windows.labels[index].to(self.device)

    def _fine_tune(self, member: DiagnosisNet) -> DiagnosisNet:
        """Train a member on its own bootstrap sample: as many training windows as there are, with replacement."""
        total = len(self.require_source())
        sample = torch.randint(total, (total,), device=self.device, generator=self.generator)
        optimizer = make_adam(member.parameters(), self.config.lr)
        for _ in range(self.config.bootstrap_steps):
            x, truth = self._draw(sample)
            minimise(optimizer, cross_entropy(member(x), truth))
        return member

    @torch.no_grad()
    def _measure(self, i: int, x: Tensor, truth: Tensor) -> float:
        """Return e_i: how often the two other members are wrong when they agree (MeasureError)."""
        j, k = _others(i)
        label, other_label = self._members[j](x).argmax(dim=1), self._members[k](x).argmax(dim=1)
        agreed = label == other_label
        wrong = (agreed & (label != truth)).sum().double()
        # A pair that never agrees counts as no better than at the start.
        return float(torch.where(agreed.any(), wrong / agreed.sum().clamp(min=1), 0.5))

    def _admit(self, i: int, error: float, agreed: Tensor) -> Tensor:
        """Return which of the agreed windows member i learns (empty: it is not retrained), and record it.

        The rule of the article's table 1: the error of the pair must be below that of its last lesson, and the lesson
        must contain fewer errors than the last one, e_i |L_i| < e'_i l'_i. A larger lesson is subsampled.
        """
        before, last_size = float(self.memory["error"][i]), int(self.memory["taught"][i])
        nothing = agreed[:0]
        if int(self.memory["retrained"][i]) >= self.config.retrainings or not error < before:
            return nothing
        if last_size == 0:
            last_size = math.floor(error / (before - error) + 1)
        if last_size >= len(agreed):
            return nothing
        lesson = agreed
        if error * len(agreed) >= before * last_size:
            if last_size <= error / (before - error):
                return nothing
            safe = math.ceil(before * last_size / error - 1)
            order = torch.randperm(len(agreed), device=self.device, generator=self.generator)
            lesson = agreed[order[:safe]]
        self.memory["error"][i], self.memory["taught"][i] = error, len(lesson)
        self.memory["retrained"][i] += 1
        return lesson


def _others(i: int) -> tuple[int, int]:
    """Return the two members other than i, in their order."""
    j, k = (member for member in range(MEMBERS) if member != i)
    return j, k
