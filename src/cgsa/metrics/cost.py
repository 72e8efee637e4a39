"""What a method costs: parameter volumes as the paper's efficiency table counts them.

The volume of a pass is the number of parameters of every layer that takes part
in it, however many windows the batch holds. A layer that is used twice counts
twice.
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


@contextmanager
def count_volume() -> Iterator[Volume]:
    """Count the passes of all linear layers while the context is open."""
    volume = Volume()

    def after_forward(module: nn.Module, _inputs: object, output: object) -> None:
        if not isinstance(module, nn.Linear) or not isinstance(output, Tensor):
            return
        size = sum(parameter.numel() for parameter in module.parameters())
        volume.forward += size

        def in_backward(_gradient: Tensor) -> None:
            volume.backward += size

        if output.requires_grad:
            output.register_hook(in_backward)  # type: ignore[no-untyped-call]

    handle = register_module_forward_hook(after_forward)
    try:
        yield volume
    finally:
        handle.remove()
