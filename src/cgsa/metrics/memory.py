"""Peak memory of a method."""

from __future__ import annotations

import torch


class PeakMemory:
    """Peak GPU memory in use, beyond what was in use when this object was created.

    Unavailable on other devices, whose memory is shared with the rest of the process.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._on_gpu = torch.device(device).type == "cuda"
        self._before = torch.cuda.memory_allocated() if self._on_gpu else 0

    def begin(self) -> None:
        """Reset the peak."""
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()

    def megabytes(self) -> float | None:
        """Return the peak since :meth:`begin` in megabytes; None if unavailable."""
        return (torch.cuda.max_memory_allocated() - self._before) / 1e6 if self._on_gpu else None
