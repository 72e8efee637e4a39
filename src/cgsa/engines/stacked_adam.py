"""Adam for many networks at once, each with a count of its own steps; those that have nothing to learn stay."""

from __future__ import annotations

import torch
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""As PyTorch has them."""


class StackedAdam:
    """Adam over rows of weights, without weight decay.

    Parameters
    ----------
    weights
        (networks, numbers), changed in place.
    lr
        Learning rate.
    """

    def __init__(self, weights: Tensor, lr: float) -> None:
        self.weights, self.lr = weights, lr
        self.means = torch.zeros_like(weights)
        self.squares = torch.zeros_like(weights)
        self.steps = torch.zeros(len(weights), device=weights.device)
        """Steps that each network has taken."""
        self._unscaled = torch.ones_like(self.steps)

    def restart(self, place: int) -> None:
        """Forget what one network has done."""
        for state in (self.means, self.squares, self.steps):
            state[place] = 0

    def step(self, gradient: Tensor, learns: Tensor, scales: Tensor | None = None) -> None:
        """Take a step in the rows for which ``learns`` is true; their gradients may be scaled."""
        scales = self._unscaled if scales is None else scales
        if self.weights.is_cuda:
            from cgsa.engines.kernels import step_rows  # noqa: PLC0415

            states = (self.weights, self.means, self.squares)
            step_rows(
                states,
                gradient,
                scales=scales,
                taken=self.steps,
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
        # Without a step yet both are infinite, and nobody reads them.
        rates = (self.lr / (1 - first**taken)).float()
        corrections = ((1 - second**taken) ** -0.5).float()
        for place in learns.nonzero().flatten().tolist():
            slope, mean, square = gradient[place] * scales[place], self.means[place], self.squares[place]
            mean.lerp_(slope, 1 - first)
            square.mul_(second).addcmul_(slope, slope, value=1 - second)
            size = square.sqrt().mul_(corrections[place]).add_(EPSILON)
            self.weights[place].addcdiv_(mean, size, value=-float(rates[place]))
