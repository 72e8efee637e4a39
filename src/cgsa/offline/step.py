"""One training step, run operation by operation or replayed as a CUDA graph.

A step is a hundred small operations. On a GPU, launching them one by one from Python takes ten times as long as
computing them, so there they are captured once and replayed. Both ways run the same operations on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import Adam

from cgsa.data.scenario import Condition
from cgsa.data.windows import Windows
from cgsa.engines.graph import capture
from cgsa.nn.dropout import set_dropout_generator
from cgsa.nn.optim import lr_factor, set_lr
from cgsa.offline.base import Batch, Losses, ObjectiveConfig, Phase
from cgsa.offline.references import References

WARM_UP_STEPS = 3
"""Steps before a capture, in which libraries choose their algorithms and memory is allocated."""
CORRECT, SQUARED_ERROR = "windows classified right", "squared error of the condition"
"""Sums over windows; all others are over steps."""
MAX_SUMS = 16
"""Number of sums that are kept on the device."""


class TrainingStep:
    """Gather a batch, take a step down its loss, and sum up training statistics.

    The ranges of ``conditions`` map measured values onto c in [0, 1]. ``prepared`` holds the outputs of the front-end
    for every window, if precomputed.
    """

    def __init__(
        self,
        windows: Windows,
        conditions: Sequence[Condition],
        phase: Phase,
        optimizer: Adam,
        *,
        batch_size: int,
        config: ObjectiveConfig,
        references: References | None = None,
        prepared: Tensor | None = None,
    ) -> None:
        self.windows = windows
        self.references = references
        self.prepared = prepared
        self.phase = phase
        self.optimizer = optimizer
        self.config = config
        self.generator = torch.Generator(windows.device)
        for module in phase.modules:
            set_dropout_generator(module, self.generator)
        self._condition = scaled_conditions(windows, conditions)
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._opponent = [] if phase.opponent is None else list(phase.opponent.module.parameters())
        taken = {id(p) for p in self._opponent}
        self._own = [p for p in self._parameters if id(p) not in taken]
        self._names: tuple[str, ...] = ()
        self._sums = torch.zeros(MAX_SUMS, dtype=torch.float64, device=windows.device)
        self._steps = self._windows = 0
        self._step = self._captured(batch_size) if windows.device.type == "cuda" else self._plain

    def __call__(self, index: Tensor, progress: float) -> None:
        """Train on the windows at ``index``, at a training progress p."""
        if self.config.schedule != "constant":
            set_lr(self.optimizer, self.config.lr * lr_factor(progress, self.config.schedule))
        self._step(index, progress)
        self._steps += 1
        self._windows += len(index)

    def begin_epoch(self, seed: int) -> None:
        """Seed the random numbers of the epoch and reset its sums."""
        self.generator.manual_seed(seed)
        self._steps = self._windows = 0
        self._sums.zero_()

    def statistics(self) -> dict[str, float]:
        """Return means over the epoch: losses, training accuracy, and R^2 of the discriminator's mean."""
        sums = dict(zip(self._names, self._sums.tolist(), strict=False))
        return epoch_statistics(sums, self._steps, self._windows, self._condition)

    def _plain(self, index: Tensor, progress: float) -> None:
        self._run(index, torch.tensor(progress))

    def _run(self, index: Tensor, progress: Tensor) -> None:
        windows = self.windows
        reference = None if self.references is None else self.references.draw(windows.machines[index], self.generator)
        batch = Batch(
            windows.gather(index) if self.prepared is None else self.prepared[index],
            windows.labels[index],
            self._condition[index],
            windows.stages[index],
            self.generator,
            reference,
        )
        if self.phase.opponent is not None:
            self._descend(self.phase.opponent.loss(batch, progress), self._opponent)
        losses = self.phase.loss(batch, progress)
        self._descend(losses, self._own)
        self._add_to_sums(losses, batch)

    def _descend(self, losses: Losses, parameters: list[nn.Parameter]) -> None:
        """Take a step of these parameters down a loss; the optimiser leaves those without a gradient alone."""
        self.optimizer.zero_grad()
        torch.autograd.backward(losses.total, inputs=parameters if self._opponent else None)
        if self.config.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(parameters, self.config.max_gradient_norm)
        self.optimizer.step()

    def _add_to_sums(self, losses: Losses, batch: Batch) -> None:
        """Add to the sums in as few operations as possible; they stay on the device, so no step waits for them."""
        found: dict[str, Tensor] = {"loss": losses.total, **losses.terms}
        if losses.scores is not None:
            found[CORRECT] = (losses.scores.argmax(dim=1) == batch.label).sum(dtype=torch.float32)
        if losses.response is not None:
            found[SQUARED_ERROR] = mse_loss(losses.response, batch.condition, reduction="sum")
        self._names = tuple(found)
        self._sums[: len(found)].add_(torch.stack(list(found.values())).detach())

    def _captured(self, size: int) -> Callable[[Tensor, float], None]:
        """Capture the step as a graph, and return a function that replays it."""
        index = torch.zeros(size, dtype=torch.int64, device=self.windows.device)
        progress = torch.zeros((), device=self.windows.device)
        self._warm_up(index, progress)
        replay = capture(lambda: self._run(index, progress), self.generator)

        def step(chosen: Tensor, at: float) -> None:
            index.copy_(chosen)
            progress.fill_(at)
            replay()

        return step

    def _warm_up(self, index: Tensor, progress: Tensor) -> None:
        """Run a few steps and undo them in place, since the graph uses the same memory."""
        kept = [tensor.detach().clone() for tensor in self._state()]
        for _ in range(WARM_UP_STEPS):
            self._run(index, progress)
        state = list(self._state())
        # Adam creates its moments in the first step; those that did not exist before start at zero.
        kept += [torch.zeros_like(tensor) for tensor in state[len(kept) :]]
        with torch.no_grad():
            for tensor, value in zip(state, kept, strict=True):
                tensor.copy_(value)

    def _state(self) -> Iterable[Tensor]:
        yield from self._parameters
        for module in self.phase.modules:
            yield from module.buffers()
        for parameter in self._parameters:
            yield from self.optimizer.state[parameter].values()


def scaled_conditions(windows: Windows, conditions: Sequence[Condition]) -> Tensor:
    """Return c of every window, (windows, conditions), scaled to 0 to 1 over the training range of each condition."""
    measured = windows.conditions
    if measured is None:
        measured = torch.zeros(len(windows), len(conditions), device=windows.device)
    # Divided by numbers, not by a tensor of them: on a GPU the two differ in the last bit.
    scaled = [
        (values - condition.minimum) / (condition.maximum - condition.minimum)
        for values, condition in zip(measured.unbind(dim=1), conditions, strict=True)
    ]
    return torch.stack(scaled, dim=1)


def epoch_statistics(sums: Mapping[str, float], steps: int, windows: int, condition: Tensor) -> dict[str, float]:
    """Return means from the sums of an epoch, per step, or per window for those that count windows."""
    means = {name: value / steps for name, value in sums.items() if name not in {CORRECT, SQUARED_ERROR}}
    if CORRECT in sums:
        means["accuracy"] = sums[CORRECT] / windows
    if SQUARED_ERROR in sums:
        variance = float(condition.double().var(dim=0, correction=0).sum())
        means["discriminator_r2"] = 1.0 - sums[SQUARED_ERROR] / windows / variance if variance > 0 else 0.0
    return means
