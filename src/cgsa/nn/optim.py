"""The Adam optimiser, and its state as plain named tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

Schedule = Literal["constant", "one_cycle"]
WARM_UP = 0.3
"""Share of a one-cycle training in which the learning rate rises."""
FIRST_LR = 1 / 25
"""Where it starts, as a share of its peak."""


def make_adam(
    parameters: Iterable[nn.Parameter], lr: float, *, weight_decay: float = 0.0, schedule: Schedule = "constant"
) -> Adam:
    """Return Adam with PyTorch's defaults in its fused form: one pass over the weights instead of ten.

    With ``weight_decay`` it is AdamW.
    """
    chosen = list(parameters)
    on_gpu = chosen[0].is_cuda
    # On a GPU the step count must live there too, so that a captured step can count, and so must a rate that changes.
    rate = torch.tensor(lr, device=chosen[0].device) if on_gpu and schedule != "constant" else lr
    if weight_decay:
        return AdamW(chosen, lr=rate, fused=True, capturable=on_gpu, weight_decay=weight_decay)
    return Adam(chosen, lr=rate, fused=True, capturable=on_gpu)


def lr_share(progress: float, schedule: Schedule) -> float:
    """Return the learning rate at a training progress in [0, 1), as a share of its peak."""
    if schedule == "constant":
        return 1.0
    if progress < WARM_UP:
        return FIRST_LR + (1 - FIRST_LR) * _rise(progress / WARM_UP)
    return 1 - _rise((progress - WARM_UP) / (1 - WARM_UP))


def set_lr(optimizer: Adam, lr: float) -> None:
    """Set the learning rate of a scheduled optimiser."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def _rise(share: float) -> float:
    """Return the way from 0 to 1 along half a cosine."""
    return 0.5 - 0.5 * math.cos(math.pi * share)


def adam_state(optimizer: Adam) -> dict[str, Tensor]:
    """Return the moments and step counts of every parameter under flat names; empty before the first step."""
    return {
        f"{place}.{name}": tensor.detach().clone()
        for place, parameter in enumerate(_parameters(optimizer))
        for name, tensor in optimizer.state[parameter].items()
    }


def load_adam_state(optimizer: Adam, state: Mapping[str, Tensor]) -> None:
    """Put back what :func:`adam_state` returned."""
    optimizer.state.clear()
    for place, parameter in enumerate(_parameters(optimizer)):
        prefix = f"{place}."
        found = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        if found:
            optimizer.state[parameter] = {
                name: tensor.to(parameter.device, torch.float32, copy=True) for name, tensor in found.items()
            }


def _parameters(optimizer: Adam) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
