"""How much memory a method takes."""

from __future__ import annotations

import torch


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
