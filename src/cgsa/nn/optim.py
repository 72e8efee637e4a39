"""The Adam optimiser, and its state as plain named tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Adam


def make_adam(parameters: Iterable[nn.Parameter], lr: float) -> Adam:
    """Return Adam with PyTorch's defaults in its fused form: one pass over the weights instead of ten."""
    chosen = list(parameters)
    # On a GPU the step count must live there too, so that a captured step can count.
    return Adam(chosen, lr=lr, fused=True, capturable=chosen[0].is_cuda)


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
