"""Cut a live signal into batches of windows, independent of block boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgsa.data.recording import FloatArray
from cgsa.data.windows import WindowSpec
from cgsa.errors import BundleError


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """Successive windows over contiguous samples."""

    samples: FloatArray
    """(channels, samples): exactly those of the windows."""
    time: float
    """Time of the first sample, in seconds since 1970."""
    windows: int
    conditions: FloatArray | None = None
    """(windows, conditions): means over the windows, NaN where unknown; None if nothing is known."""


class Windower:
    """Buffers samples until a batch of windows is complete.

    Batch boundaries depend on the samples alone, not on the blocks that carried
    them. No window crosses a gap: the windows before it become a batch of their
    own, however short, and cutting restarts after it.

    ``sample_rate`` is in Hz; ``conditions`` is the number of operating conditions.
    """

    def __init__(
        self, spec: WindowSpec, batch_size: int, channels: int, sample_rate: float, conditions: int = 0
    ) -> None:
        self._spec, self._batch_size, self._rate = spec, batch_size, sample_rate
        self._buffer: FloatArray = np.empty((channels, 0), dtype=np.float32)
        self._conditions: FloatArray = np.empty((conditions, 0), dtype=np.float32)
        """Operating conditions of the buffered samples, NaN where unknown."""
        self._start_time = 0.0
        """Time of the first sample since the last gap."""
        self._dropped = 0
        """Number of samples since then that were dropped because no further window needs them."""
        self._skip = 0
        """Number of samples to drop when they arrive."""

    @property
    def now(self) -> float:
        """Time of the end of the samples so far."""
        return self._start_time + (self._dropped + int(self._buffer.shape[1])) / self._rate

    @property
    def complete_windows(self) -> int:
        """Number of windows that wait for the rest of their batch."""
        return self._spec.count(self._buffer.shape[1])

    def restart(self, time: float) -> list[WindowBatch]:
        """Restart with a sample taken at ``time``; return the buffered windows, if there are any, as a last batch."""
        windows = self.complete_windows
        last = [self._next_batch(windows)] if windows else []
        self._buffer, self._conditions = self._buffer[:, :0], self._conditions[:, :0]
        self._start_time, self._dropped, self._skip = time, 0, 0
        return last

    def add(self, samples: FloatArray, conditions: FloatArray | None = None) -> list[WindowBatch]:
        """Append samples that continue the previous ones, (channels, samples); return the completed batches.

        ``conditions`` are those of the samples, (conditions, samples), NaN where unknown.
        """
        batches = []
        self._buffer = np.concatenate([self._buffer, samples], axis=1)
        unknown = np.full((len(self._conditions), samples.shape[1]), np.nan, dtype=np.float32)
        known = unknown if conditions is None else conditions
        self._conditions = np.concatenate([self._conditions, known], axis=1, dtype=np.float32)
        self._drop()
        while self.complete_windows >= self._batch_size:
            batches.append(self._next_batch(self._batch_size))
        return batches

    def _next_batch(self, windows: int) -> WindowBatch:
        samples = (windows - 1) * self._spec.step + self._spec.length
        time = self._start_time + self._dropped / self._rate
        conditions = _window_conditions(self._conditions[:, :samples], self._spec)
        batch = WindowBatch(self._buffer[:, :samples].copy(), time, windows, conditions)
        self._skip = windows * self._spec.step
        self._drop()
        return batch

    def _drop(self) -> None:
        """Drop samples that no further window needs; between disjoint windows, some of them have yet to arrive."""
        dropped = min(self._skip, self._buffer.shape[1])
        if dropped:
            self._buffer = self._buffer[:, dropped:].copy()
            self._conditions = self._conditions[:, dropped:].copy()
            self._dropped, self._skip = self._dropped + dropped, self._skip - dropped

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next batch depends on, as copies."""
        state = {
            "held": torch.from_numpy(self._buffer.copy()),
            "begun": torch.tensor(self._start_time, dtype=torch.float64),
            "cut": torch.tensor([self._dropped, self._skip]),
        }
        # As states of versions without conditions, and as long as they were, while none is known.
        known = not np.isnan(self._conditions).all()
        return state | ({"conditions": torch.from_numpy(self._conditions.copy())} if known else {})

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        samples = state["held"]
        if samples.ndim != 2 or len(samples) != len(self._buffer) or samples.dtype != torch.float32:
            raise BundleError(
                f"buffered samples of shape {tuple(samples.shape)}; expected ({len(self._buffer)}, samples): "
                f"the state belongs to a machine with other channels"
            )
        unknown = torch.full((len(self._conditions), samples.shape[1]), torch.nan)
        conditions = state.get("conditions", unknown)
        if conditions.shape != unknown.shape or conditions.dtype != torch.float32:
            raise BundleError(
                f"buffered conditions of shape {tuple(conditions.shape)}; expected {tuple(unknown.shape)}: "
                f"the state belongs to a model with other conditions"
            )
        self._buffer, self._conditions = samples.numpy().copy(), conditions.numpy().copy()
        self._start_time = float(state["begun"])
        self._dropped, self._skip = (int(count) for count in state["cut"])


def _window_conditions(conditions: FloatArray, spec: WindowSpec) -> FloatArray | None:
    """Return the means over windows, (windows, conditions); None if all of them are unknown.

    Each depends on the samples of its window alone: one unknown value makes it unknown, and no other.
    """
    if np.isnan(conditions).all():
        return None
    windows = np.lib.stride_tricks.sliding_window_view(conditions, spec.length, axis=1)[:, :: spec.step]
    return np.asarray(windows.mean(axis=2, dtype=np.float64).T, dtype=np.float32)
