"""Parameter volumes, counted as in the paper's efficiency table.

The volume of a pass is the number of parameters of all layers that take part in
it, whatever the batch size. A layer that is used twice counts twice. Calls of
linear layers are counted automatically; code that computes a layer in another
way calls :func:`count_forward` and :func:`count_backward`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from cgsa.nn.mlp import count_parameters


@dataclass
class Volume:
    """Number of parameters used in forward and backward passes so far."""

    forward: int = 0
    backward: int = 0


_counting: list[Volume] = []


def count_forward(layer: nn.Linear) -> None:
    """Count a forward pass through a layer that was computed without calling it."""
    for volume in _counting:
        volume.forward += count_parameters(layer)


def count_backward(layer: nn.Linear) -> None:
    """Count a backward pass through a layer that was computed without autograd."""
    for volume in _counting:
        volume.backward += count_parameters(layer)


@contextmanager
def count_volume() -> Iterator[Volume]:
    """Count the passes of all linear layers within the context."""
    volume = Volume()

    def after_forward(module: nn.Module, _inputs: object, output: object) -> None:
        if not isinstance(module, nn.Linear) or not isinstance(output, Tensor):
            return
        size = count_parameters(module)
        volume.forward += size

        def in_backward(_gradient: Tensor) -> None:
            volume.backward += size

        if output.requires_grad:
            output.register_hook(in_backward)  # type: ignore[no-untyped-call]

    handle = register_module_forward_hook(after_forward)
    _counting.append(volume)
    try:
        yield volume
    finally:
        _counting.remove(volume)
        handle.remove()
