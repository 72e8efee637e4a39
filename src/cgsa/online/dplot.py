"""DPLOT: entropy minimisation for domain-specific layers, a paired-view teacher for all.

Y. Yu, S. Shin, S. Back, M. Ko, S. Noh and K. Lee, "Domain-Specific Block
Selection and Paired-View Pseudo-Labeling for Online Test-Time Adaptation",
CVPR 2024.

Blocks are the linear layers, selected before the stream with labelled training
windows, so results must be reported as source-available before deployment. The
flip of images is replaced by the strong view of vibration windows, and there is
no BatchNorm: the second loss updates all weights. The classifier itself is no
candidate, because blocks are compared by the features before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, one_hot

from cgsa.nn.augment import gaussian_noise, strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, symmetric_cross_entropy
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import make_adam, minimise
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class DplotConfig(MethodConfig):
    """Settings of DPLOT; unless noted, as in its authors' code."""

    block_lr: float = 1e-3
    """Learning rate of Adam for the selected blocks, before and during the stream."""
    lr: float = 1e-4
    """Learning rate of Adam for all weights."""
    momentum: float = 0.999
    """Share of the teacher kept per batch; 0.9 and 0.99 suit short streams."""
    noise: float = 0.5
    """Noise on training windows during block selection, in deviations of the channel."""
    threshold: float = 0.75
    """Scaled similarity of prototypes above which a block is selected."""
    selection_windows: int = 4096
    """Training windows used for block selection; our choice, sixteen batches."""
    warm_up: int = 0
    """Training windows on which student and teacher warm up. The authors use 50,000; how is unclear, so it is off."""
    batch_size: int = 256
    """Training windows per step before the stream; the same as in the stream."""

    def __post_init__(self) -> None:
        self.check(
            *("block_lr", "lr", "noise"),
            valid=self.block_lr > 0 and self.lr > 0 and self.noise >= 0,
            expected="learning rates above 0 and noise >= 0",
        )
        self.check(
            *("momentum", "threshold"),
            valid=0 <= self.momentum <= 1 and 0 <= self.threshold < 1,
            expected="0 <= momentum <= 1 and 0 <= threshold < 1",
        )
        self.check(
            *("selection_windows", "warm_up", "batch_size"),
            valid=self.selection_windows >= 1 and self.warm_up >= 0 and self.batch_size >= 1,
            expected="selection_windows >= 1, warm_up >= 0 and batch_size >= 1",
        )


class Dplot(AdaptingMethod):
    """Selected blocks minimise the entropy, then all weights learn from a teacher's predictions of two views."""

    Config = DplotConfig
    summary = "DPLOT (uses training windows before the stream): selected blocks, paired-view teacher"
    needs = frozenset({"source_data"})

    def start(self) -> None:
        """Copy student and teacher, select the blocks, and warm up if configured."""
        self._student = self.copy_network(trainable=True)
        self._teacher = self.copy_network(trainable=False)
        self.networks = {"student": self._student, "teacher": self._teacher}
        self._blocks = _candidate_blocks(self._student)
        self.memory = {"chosen": self._select_blocks()}
        if self.config.warm_up:
            self._warm_up()
        self.optimizers = {
            # Over all candidates, so that a state fits whichever blocks were selected; see _minimise_entropy.
            "blocks": make_adam([p for block in self._blocks for p in block.parameters()], self.config.block_lr),
            "all": make_adam(self._student.parameters(), self.config.lr),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of student and teacher over both views."""
        x = x.to(self.device, torch.float32)
        # The view is drawn from a copy of the generator: the next step must draw the same.
        view = strong_view(x, self._deviation, self.generator.clone_state())
        return self._ensemble(self._student(x), x, view)[0]

    def _step(self, x: Tensor) -> StepOutput:
        # Student and teacher predict first, each from both views.
        view = strong_view(x, self._deviation, self.generator)
        scores = self._student(x)
        with torch.no_grad():
            probabilities, pseudo_scores = self._ensemble(scores.detach(), x, view)

        # Entropy minimisation of the domain-specific blocks.
        uncertainty = entropy(scores)
        self._minimise_entropy(uncertainty)

        # Paired-view pseudo-labelling. The blocks have changed since the first pass, so its graph is stale: the student
        # predicts both views again, together, for one backward pass.
        loss = symmetric_cross_entropy(pseudo_scores.repeat(2, 1), self._student(torch.cat([x, view]))).mean()
        minimise(self.optimizers["all"], loss)
        update_ema(self._teacher, self._student, self.config.momentum)

        evidence = {"entropy": uncertainty.detach(), "pseudo_label": pseudo_scores.argmax(dim=1)}
        return StepOutput(probabilities, torch.ones(len(x), dtype=torch.bool, device=self.device), evidence)

    @property
    def _deviation(self) -> Tensor:
        return self._student.frontend.deviation

    def _ensemble(self, scores: Tensor, x: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities of all four passes, and the teacher's mean scores over both views."""
        student = (scores + self._student(view)) / 2
        teacher: Tensor = (self._teacher(x) + self._teacher(view)) / 2
        # The mean of scores, not their sum: the class is the same, and more views do not inflate the confidence.
        return torch.softmax((student + teacher) / 2, dim=1), teacher

    def _minimise_entropy(self, uncertainty: Tensor) -> None:
        """Take one step down the mean entropy with the selected blocks only."""
        self.optimizers["all"].zero_grad()
        torch.autograd.backward(uncertainty.mean())
        for block, chosen in zip(self._blocks, self.memory["chosen"].tolist(), strict=True):
            if not chosen:
                block.zero_grad()  # Adam skips weights without a gradient
        self.optimizers["blocks"].step()

    def _select_blocks(self) -> Tensor:
        """Return which blocks can minimise the entropy of another domain without shifting the class prototypes."""
        similarity = self._similarities()
        least, most = similarity.aminmax()
        scaled: Tensor = (similarity - least) / (most - least)
        # If all similarities are equal, as with a single block, 0/0 selects every block.
        return scaled.isnan() | scaled.gt(self.config.threshold)

    def _similarities(self) -> Tensor:
        """Return for each block how similar the class prototypes stay when only this block learns."""
        batches = self._draw_source(self.config.selection_windows)
        before = self._prototypes(self._student, batches)
        return torch.stack([self._similarity_after(block, batches, before) for block in range(len(self._blocks))])

    def _similarity_after(self, number: int, batches: list[Tensor], before: Tensor) -> Tensor:
        """Return the mean cosine of the class prototypes before and after one block learns noisy windows."""
        network = self.copy_network(trainable=False)
        block = _candidate_blocks(network)[number].requires_grad_()
        optimizer = make_adam(block.parameters(), self.config.block_lr)
        for index in batches:
            x = self.require_source().gather(index).to(self.device)
            noisy = x + gaussian_noise(x, self._deviation, self.generator, size=self.config.noise)
            minimise(optimizer, entropy(network(noisy)).mean())
        similarity = cosine_similarity(before, self._prototypes(network, batches), dim=1)
        return similarity.nanmean()

    @torch.no_grad()
    def _prototypes(self, network: DiagnosisNet, batches: list[Tensor]) -> Tensor:
        """Return the mean feature before the classifier per class; NaN for a class without windows."""
        windows, classes = self.require_source(), len(self.bundle.manifest.classes)
        total, count = torch.zeros((), device=self.device), torch.zeros(classes, 1, device=self.device)
        for index in batches:
            features = network.G[:-1](network.features(windows.gather(index).to(self.device)))
            member = one_hot(windows.labels[index].to(self.device), classes).to(features.dtype)
            total, count = total + member.T @ features, count + member.sum(dim=0)[:, None]
        return total / count

    def _warm_up(self) -> None:
        """Train student and teacher on training windows, as in the stream."""
        optimizer = make_adam(self._student.parameters(), self.config.lr)
        for index in self._draw_source(self.config.warm_up):
            x = self.require_source().gather(index).to(self.device)
            with torch.no_grad():
                target = self._teacher(x)
            minimise(optimizer, symmetric_cross_entropy(target, self._student(x)).mean())
            update_ema(self._teacher, self._student, self.config.momentum)

    def _draw_source(self, count: int) -> list[Tensor]:
        """Return indices of random training windows in batches, each window at most once."""
        windows = self.require_source()
        order = torch.randperm(len(windows), device=self.device, generator=self.generator)[:count]
        return list(torch.split(order.to(windows.device), self.config.batch_size))


def _candidate_blocks(network: DiagnosisNet) -> list[nn.Linear]:
    """Return the linear layers before the classifier."""
    return [module for module in network.modules() if isinstance(module, nn.Linear)][:-1]
