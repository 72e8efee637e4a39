"""Gradient reversal: the identity forward, a negated and scaled gradient backward."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: Tensor) -> Tensor:
        ctx.save_for_backward(coefficient)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (coefficient,) = ctx.saved_tensors
        return -coefficient * gradients[0], None


def reverse_gradient(x: Tensor, coefficient: Tensor) -> Tensor:
    """Return ``x``; its gradient is multiplied by ``-coefficient``."""
    return cast(Tensor, _Reversal.apply(x, coefficient))  # type: ignore[no-untyped-call]


def adversarial_coefficient(progress: Tensor, gamma: float) -> Tensor:
    """Return lambda of eq. (4): 0 at the start of training, approaching 1 at its end.

    >>> round(adversarial_coefficient(torch.tensor(0.1), 10.0).item(), 4)
    0.4621
    """
    return 2.0 / (1.0 + torch.exp(-gamma * progress)) - 1.0
