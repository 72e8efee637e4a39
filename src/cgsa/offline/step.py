"""One training step, run as it is or replayed as a CUDA graph.

A step is a hundred small operations. On a GPU, launching them one by one from
Python takes ten times as long as the work itself, so there they are captured
once and replayed. Both ways run the same operations on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.data.scenario import Condition
from cgsa.data.windows import Windows
from cgsa.nn.graph import capture
from cgsa.offline.base import Batch, Losses, Phase

WARM_UP_STEPS = 3
"""Steps before a capture, so that libraries have made their choices and memory is in place."""


class TrainingStep:
    """Gather a batch, descend its loss, and add up what is worth knowing.

    Parameters
    ----------
    windows
        Training windows.
    condition
        Its range maps measured values onto c in [0, 1].
    phase
        Whose loss is descended.
    optimizer
        Over the parameters of the phase.
    batch_size
        Windows a step.
    max_gradient_norm
        Clip the gradient to this norm; none means no clipping.
    """

    def __init__(
        self,
        windows: Windows,
        condition: Condition,
        phase: Phase,
        optimizer: Adam,
        *,
        batch_size: int,
        max_gradient_norm: float | None,
    ) -> None:
        self.windows = windows
        self.phase = phase
        self.optimizer = optimizer
        self.max_gradient_norm = max_gradient_norm
        self.generator = torch.Generator(windows.device)
        measured = windows.conditions
        if measured is None:
            measured = torch.zeros(len(windows), device=windows.device)
        self._condition = (measured - condition.minimum) / (condition.maximum - condition.minimum)
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._sums: dict[str, Tensor] = {}
        self._step = self._captured(batch_size) if windows.device.type == "cuda" else self._plain

    def __call__(self, index: Tensor, progress: float) -> None:
        """Train on the windows at ``index``, at a training progress p."""
        self._step(index, progress)

    def begin_epoch(self, seed: int) -> None:
        """Draw the epoch's random numbers from ``seed`` and start its sums anew."""
        self.generator.manual_seed(seed)
        for value in self._sums.values():
            value.zero_()

    def figures(self) -> dict[str, float]:
        """Return means over the epoch: losses, training accuracy, and R^2 of the discriminator's mean."""
        sums = {name: float(value) for name, value in self._sums.items()}
        figures = {name: sums[name] / sums["_steps"] for name in sums if not name.startswith("_")}
        if "_right" in sums:
            figures["accuracy"] = sums["_right"] / sums["_windows"]
        if "_error" in sums:
            mean = sums["_c"] / sums["_windows"]
            variance = sums["_c2"] / sums["_windows"] - mean**2
            error = sums["_error"] / sums["_windows"]
            figures["discriminator_r2"] = 1.0 - error / variance if variance > 0 else 0.0
        return figures

    def _plain(self, index: Tensor, progress: float) -> None:
        self._run(index, torch.tensor(progress))

    def _run(self, index: Tensor, progress: Tensor) -> None:
        windows = self.windows
        batch = Batch(
            windows.gather(index), windows.labels[index], self._condition[index], windows.parts[index], self.generator
        )
        losses = self.phase.loss(batch, progress)
        self.optimizer.zero_grad()
        torch.autograd.backward(losses.total)
        if self.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters, self.max_gradient_norm)
        self.optimizer.step()
        self._add_up(losses, batch)

    def _add_up(self, losses: Losses, batch: Batch) -> None:
        """Add to the sums, which stay on the device: no step waits for them."""
        found: dict[str, Tensor] = {"loss": losses.total, **losses.terms}
        found["_steps"] = torch.ones((), device=batch.x.device)
        found["_windows"] = torch.full((), len(batch.label), device=batch.x.device)
        if losses.scores is not None:
            found["_right"] = (losses.scores.argmax(dim=1) == batch.label).sum()
        if losses.response is not None:
            c = batch.condition.double()
            found |= {"_error": ((c - losses.response) ** 2).sum(), "_c": c.sum(), "_c2": (c**2).sum()}
        for name, value in found.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros((), dtype=torch.float64, device=value.device)
            self._sums[name].add_(value.detach())

    def _captured(self, size: int) -> Callable[[Tensor, float], None]:
        """Capture the step as a graph, and return what replays it."""
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
        """Run a few steps and undo them in place: the graph will go on using this very memory."""
        kept = [tensor.detach().clone() for tensor in self._state()]
        for _ in range(WARM_UP_STEPS):
            self._run(index, progress)
        state = list(self._state())
        # Adam makes its moments in the first step; those that were not there before start at zero.
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
