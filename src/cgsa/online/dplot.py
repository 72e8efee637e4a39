"""DPLOT: entropy for layers that follow the domain, a paired-view teacher for all.

Y. Yu, S. Shin, S. Back, M. Ko, S. Noh and K. Lee, "Domain-Specific Block
Selection and Paired-View Pseudo-Labeling for Online Test-Time Adaptation",
CVPR 2024.

Blocks are the linear layers, chosen before the stream with labelled training
windows, so results must be reported as source-available before deployment. The
flip of images is replaced by the view that contrastive training used, and there
is no BatchNorm: the second loss updates all weights. The classifier itself is
no candidate, for the features that judge a block lie before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, one_hot

from cgsa.data.windows import Windows
from cgsa.errors import ConfigError
from cgsa.nn.augment import gaussian_noise, strong_view
from cgsa.nn.ema import update_ema
from cgsa.nn.losses import entropy, symmetric_cross_entropy
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput


@dataclass(frozen=True)
class DplotConfig(MethodConfig):
    """Settings of DPLOT, as in its authors' code where not said otherwise."""

    block_lr: float = 1e-3
    """Learning rate of Adam for the chosen blocks, before and in the stream."""
    lr: float = 1e-4
    """Learning rate of Adam for all weights."""
    momentum: float = 0.999
    """How much of the teacher is kept a batch; 0.9 and 0.99 suit short streams."""
    noise: float = 0.5
    """Noise on training windows while blocks are judged, in deviations of the channel."""
    threshold: float = 0.75
    """Scaled similarity of prototypes above which a block is chosen."""
    selection_windows: int = 4096
    """Training windows by which blocks are judged; our choice, sixteen batches."""
    warm_up: int = 0
    """Training windows on which student and teacher warm up. The authors take 50,000 but how is open here: off."""
    batch_size: int = 256
    """Training windows a step before the stream; that of the stream itself."""

    def __post_init__(self) -> None:
        if self.block_lr <= 0 or self.lr <= 0 or self.noise < 0:
            raise ConfigError(
                f"block_lr {self.block_lr:g}, lr {self.lr:g}, noise {self.noise:g}; "
                f"expected learning rates above 0 and noise >= 0"
            )
        if not 0 <= self.momentum <= 1 or not 0 <= self.threshold < 1:
            raise ConfigError(
                f"momentum {self.momentum:g}, threshold {self.threshold:g}; expected 0 <= momentum <= 1 and "
                f"0 <= threshold < 1"
            )
        if self.selection_windows < 1 or self.warm_up < 0 or self.batch_size < 1:
            raise ConfigError(
                f"selection_windows {self.selection_windows}, warm_up {self.warm_up}, batch_size {self.batch_size}; "
                f"expected selection_windows >= 1, warm_up >= 0 and batch_size >= 1"
            )


class Dplot(AdaptingMethod):
    """Chosen blocks lower the entropy, then all weights learn from a teacher that saw two views."""

    Config: ClassVar[type[MethodConfig]] = DplotConfig
    summary: ClassVar[str] = "DPLOT (uses training windows before the stream): chosen blocks, paired-view teacher"
    needs: ClassVar[frozenset[str]] = frozenset({"source_data"})

    def start(self) -> None:
        """Copy student and teacher, choose the blocks, and warm up where that is asked for."""
        self._student = self.copy_network(trainable=True)
        self._teacher = self.copy_network(trainable=False)
        self.networks = {"student": self._student, "teacher": self._teacher}
        self._blocks = _candidates(self._student)
        self.memory = {"chosen": self._choose_blocks()}
        if self.config.warm_up:
            self._warm_up()
        self.optimizers = {
            # Over all candidates, so that a state fits whichever blocks it was saved with; see _lower_entropy.
            "blocks": make_adam([p for block in self._blocks for p in block.parameters()], self.config.block_lr),
            "all": make_adam(self._student.parameters(), self.config.lr),
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of student and teacher over both views."""
        x = x.to(self.device, torch.float32)
        # The view is drawn from a copy of the random numbers: the next step must draw the same.
        view = self._pair(x, self.generator.clone_state())
        return self._ensemble(self._student(x), x, view)[0]

    def _step(self, x: Tensor) -> StepOutput:
        # Student and teacher speak first, both over both views.
        view = self._pair(x, self.generator)
        scores = self._student(x)
        with torch.no_grad():
            probabilities, pseudo_scores = self._ensemble(scores.detach(), x, view)

        # Entropy minimisation of the domain-specific blocks.
        uncertainty = entropy(scores)
        self._lower_entropy(uncertainty)

        # Paired-view pseudo-labelling. The blocks have changed since the first pass, and a graph over their old
        # weights would be wrong: the student passes both views again, together, so that one pass leads back.
        loss = symmetric_cross_entropy(pseudo_scores.repeat(2, 1), self._student(torch.cat([x, view]))).mean()
        self.optimizers["all"].zero_grad()
        torch.autograd.backward(loss)
        self.optimizers["all"].step()
        update_ema(self._teacher, self._student, self.config.momentum)

        evidence = {"entropy": uncertainty.detach(), "pseudo_label": pseudo_scores.argmax(dim=1)}
        return StepOutput(probabilities, torch.ones(len(x), dtype=torch.bool, device=self.device), evidence)

    def _pair(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return strong_view(x, self._deviation, generator)

    @property
    def _deviation(self) -> Tensor:
        return cast(Tensor, self._student.frontend.deviation)

    def _ensemble(self, scores: Tensor, x: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities of all four passes, and the teacher's mean scores over both views."""
        student = (scores + self._student(view)) / 2
        teacher = cast(Tensor, self._teacher(x) + self._teacher(view)) / 2
        # The mean of scores, not their sum: it names the same class, and as many views make nobody surer.
        return torch.softmax((student + teacher) / 2, dim=1), teacher

    def _lower_entropy(self, uncertainty: Tensor) -> None:
        """Take one step down the mean entropy with the chosen blocks alone."""
        self.optimizers["all"].zero_grad()
        torch.autograd.backward(uncertainty.mean())
        for block, chosen in zip(self._blocks, self.memory["chosen"].tolist(), strict=True):
            if not chosen:
                block.zero_grad()  # no gradient at all: Adam leaves such weights alone
        self.optimizers["blocks"].step()

    def _choose_blocks(self) -> Tensor:
        """Return which blocks may lower the entropy of another domain without moving the class prototypes."""
        similarity = self._similarities()
        least, most = similarity.aminmax()
        scaled: Tensor = (similarity - least) / (most - least)
        # Where all blocks are alike, as where there is but one, 0/0 tells nothing against any of them.
        return scaled.isnan() | scaled.gt(self.config.threshold)

    def _similarities(self) -> Tensor:
        """Return for each block how alike the class prototypes stay when it alone learns."""
        batches = self._draw_source(self.config.selection_windows)
        before = self._prototypes(self._student, batches)
        return torch.stack([self._similarity_after(place, batches, before) for place in range(len(self._blocks))])

    def _similarity_after(self, place: int, batches: list[Tensor], before: Tensor) -> Tensor:
        """Return the mean cosine of class prototypes before and after one block has learnt noisy windows."""
        network = self.copy_network(trainable=False)
        block = _candidates(network)[place].requires_grad_()
        optimizer = make_adam(block.parameters(), self.config.block_lr)
        for index in batches:
            x = self._source_windows.gather(index).to(self.device)
            noisy = x + gaussian_noise(x, self._deviation, self.generator, size=self.config.noise)
            loss = entropy(network(noisy)).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        similarity = cosine_similarity(before, self._prototypes(network, batches), dim=1)
        return similarity.nanmean()

    @torch.no_grad()
    def _prototypes(self, network: DiagnosisNet, batches: list[Tensor]) -> Tensor:
        """Return the mean feature before the classifier of each class; NaN for a class without windows."""
        windows, classes = self._source_windows, len(self.bundle.manifest.classes)
        total, count = torch.zeros((), device=self.device), torch.zeros(classes, 1, device=self.device)
        for index in batches:
            features = network.G[:-1](network.features(windows.gather(index).to(self.device)))
            member = one_hot(windows.labels[index].to(self.device), classes).to(features.dtype)
            total, count = total + member.T @ features, count + member.sum(dim=0)[:, None]
        return total / count

    def _warm_up(self) -> None:
        """Bring student and teacher apart and together again on training windows, as in the stream."""
        optimizer = make_adam(self._student.parameters(), self.config.lr)
        for index in self._draw_source(self.config.warm_up):
            x = self._source_windows.gather(index).to(self.device)
            with torch.no_grad():
                target = self._teacher(x)
            loss = symmetric_cross_entropy(target, self._student(x)).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            update_ema(self._teacher, self._student, self.config.momentum)

    @property
    def _source_windows(self) -> Windows:
        return cast(Windows, self.source)  # there by what the method needs

    def _draw_source(self, count: int) -> list[Tensor]:
        """Return indices of random training windows in batches; each window once where there are fewer."""
        windows = self._source_windows
        order = torch.randperm(len(windows), device=self.device, generator=self.generator)[:count]
        return list(torch.split(order.to(windows.device), self.config.batch_size))


def _candidates(network: DiagnosisNet) -> list[nn.Linear]:
    """Return the linear layers before the classifier."""
    return [module for module in network.modules() if isinstance(module, nn.Linear)][:-1]
