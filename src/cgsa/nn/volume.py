"""Parameter volumes, as the paper's efficiency table counts them.

The volume of a pass is the number of parameters of every layer that takes part
in it, however many windows the batch holds. A layer that is used twice counts
twice. Calls of linear layers are noticed; whoever computes a layer in another
way says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook


@dataclass
class Volume:
    """Parameters that took part in forward and backward passes so far."""

    forward: int = 0
    backward: int = 0


_counting: list[Volume] = []


def passed_forward(layer: nn.Linear) -> None:
    """Count a pass through a layer that was not called."""
    for volume in _counting:
        volume.forward += _size(layer)


def passed_backward(layer: nn.Linear) -> None:
    """Count a pass back through a layer that autograd knows nothing of."""
    for volume in _counting:
        volume.backward += _size(layer)


@contextmanager
def count_volume() -> Iterator[Volume]:
    """Count the passes of all linear layers while the context is open."""
    volume = Volume()

    def after_forward(module: nn.Module, _inputs: object, output: object) -> None:
        if not isinstance(module, nn.Linear) or not isinstance(output, Tensor):
            return
        size = _size(module)
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


def _size(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())
