"""Adam for many networks at once, each with its own step count; networks with nothing to learn do not change."""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.engines.graph import has_kernels

if has_kernels():
    from cgsa.engines import layer_kernels

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""The defaults of PyTorch."""


class StackedAdam:
    """Adam over rows of weights, (networks, numbers), which it changes in place; without weight decay."""

    def __init__(self, weights: Tensor, lr: float) -> None:
        self.weights, self.lr = weights, lr
        self.means = torch.zeros_like(weights)
        self.squares = torch.zeros_like(weights)
        self.steps = torch.zeros(len(weights), device=weights.device)
        """Steps taken by each network."""
        self._unscaled = torch.ones_like(self.steps)

    def restart(self, place: int) -> None:
        """Clear the moments and the step count of one network."""
        for state in (self.means, self.squares, self.steps):
            state[place] = 0

    def step(self, gradient: Tensor, learns: Tensor, scales: Tensor | None = None) -> None:
        """Take a step in the rows for which ``learns`` is true, with gradients multiplied by ``scales`` if given."""
        scales = self._unscaled if scales is None else scales
        if self.weights.is_cuda:
            layer_kernels.launch_adam_step(
                (self.weights, self.means, self.squares),
                gradient,
                scales=scales,
                steps_taken=self.steps,
                learns=learns,
                lr=self.lr,
                betas=BETAS,
                epsilon=EPSILON,
            )
            self.steps += learns
            return
        self.steps += learns
        first, second = BETAS
        taken = self.steps.double()
        # Before the first step both are infinite, and unused.
        rates = (self.lr / (1 - first**taken)).float()
        corrections = ((1 - second**taken) ** -0.5).float()
        for place in learns.nonzero().flatten().tolist():
            slope, mean, square = gradient[place] * scales[place], self.means[place], self.squares[place]
            mean.lerp_(slope, 1 - first)
            square.mul_(second).addcmul_(slope, slope, value=1 - second)
            size = square.sqrt().mul_(corrections[place]).add_(EPSILON)
            self.weights[place].addcdiv_(mean, size, value=-float(rates[place]))
