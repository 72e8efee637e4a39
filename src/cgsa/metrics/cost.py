"""What a method costs: parameter volumes as the paper's efficiency table counts them.

The volume of a pass is the number of parameters of every layer that takes part
in it, however many windows the batch holds. A layer that is used twice counts
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
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


class PeakMemory:
    """How much GPU memory was in use at most, beyond what was in use when this object was made.

    Nothing is known of other devices: their memory is shared with whatever else
    the process holds.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._on_gpu = torch.device(device).type == "cuda"
        self._before = torch.cuda.memory_allocated() if self._on_gpu else 0

    def begin(self) -> None:
        """Forget the peak so far."""
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()

    def megabytes(self) -> float | None:
        """Return the peak since :meth:`begin` in megabytes; none where nothing is known."""
        return (torch.cuda.max_memory_allocated() - self._before) / 1e6 if self._on_gpu else None
