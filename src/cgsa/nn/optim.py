"""The Adam optimiser, one step with it, and its state as named tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from cgsa.nn.state import select_prefix

Schedule = Literal["constant", "one_cycle", "halving"]
WARM_UP_SHARE = 0.3
"""Share of a one-cycle training during which the learning rate rises."""
HALVINGS = 4
"""How often a halving schedule halves the learning rate: every 50 of the paper's 200 epochs, as in CIDA's code."""
INITIAL_LR_FACTOR = 1 / 25
"""Initial learning rate as a fraction of its peak."""


def make_adam(
    parameters: Iterable[nn.Parameter],
    lr: float,
    *,
    weight_decay: float = 0.0,
    coupled_decay: bool = False,
    schedule: Schedule = "constant",
) -> Adam:
    """Return Adam with PyTorch's defaults, fused: one pass over the weights instead of ten.

    With ``weight_decay`` it is AdamW, unless the decay is coupled: then it is part of the gradient.
    """
    chosen = list(parameters)
    on_gpu = chosen[0].is_cuda
    # On a GPU the step count and a scheduled rate must be there too, so that a captured step can use them.
    rate = torch.tensor(lr, device=chosen[0].device) if on_gpu and schedule != "constant" else lr
    if weight_decay and not coupled_decay:
        return AdamW(chosen, lr=rate, fused=True, capturable=on_gpu, weight_decay=weight_decay)
    return Adam(chosen, lr=rate, fused=True, capturable=on_gpu, weight_decay=weight_decay)


def lr_factor(progress: float, schedule: Schedule) -> float:
    """Return the learning rate at a training progress in [0, 1), as a fraction of its peak."""
    if schedule == "constant":
        return 1.0
    if schedule == "halving":
        return float(0.5 ** (HALVINGS * progress))
    if progress < WARM_UP_SHARE:
        return INITIAL_LR_FACTOR + (1 - INITIAL_LR_FACTOR) * _rise(progress / WARM_UP_SHARE)
    return 1 - _rise((progress - WARM_UP_SHARE) / (1 - WARM_UP_SHARE))


def set_lr(optimizer: Adam, lr: float) -> None:
    """Set the learning rate of a scheduled optimiser."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def _rise(fraction: float) -> float:
    """Return half a cosine from 0 to 1."""
    return 0.5 - 0.5 * math.cos(math.pi * fraction)


def minimise(optimizer: Adam, loss: Tensor) -> None:
    """Take one step of the optimiser down the gradient of the loss."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def adam_state(optimizer: Adam) -> dict[str, Tensor]:
    """Return the moments and step counts of every parameter as flat names; empty before the first step."""
    return {
        f"{number}.{name}": tensor.detach().clone()
        for number, parameter in enumerate(_parameters(optimizer))
        for name, tensor in optimizer.state[parameter].items()
    }


def load_adam_state(optimizer: Adam, state: Mapping[str, Tensor]) -> None:
    """Restore a state that :func:`adam_state` returned."""
    optimizer.state.clear()
    for number, parameter in enumerate(_parameters(optimizer)):
        found = select_prefix(str(number), state)
        if found:
            optimizer.state[parameter] = {
                name: tensor.to(parameter.device, torch.float32, copy=True) for name, tensor in found.items()
            }


def _parameters(optimizer: Adam) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
