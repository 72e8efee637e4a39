"""Cutting a live signal into batches of windows, wherever its blocks begin and end."""

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
    """Neighbouring windows in one stretch of samples."""

    samples: FloatArray
    """(channels, samples): just those of its windows."""
    time: float
    """When the first of them was taken, in seconds since 1970."""
    windows: int


class Windower:
    """Holds samples back until a batch of windows is whole.

    Where batches begin and end depends on the samples alone, not on the blocks
    that they came in. No window crosses a gap: what is there before it becomes a
    batch of its own, however short, and cutting starts anew.

    Parameters
    ----------
    spec
        How windows are cut.
    batch_size
        Windows a batch.
    channels
        Of the signal.
    sample_rate
        In Hz.
    """

    def __init__(self, spec: WindowSpec, batch_size: int, channels: int, sample_rate: float) -> None:
        self._spec, self._batch, self._rate = spec, batch_size, sample_rate
        self._held: FloatArray = np.empty((channels, 0), dtype=np.float32)
        self._begun = 0.0
        """When the first sample since the last gap was taken."""
        self._cut = 0
        """Samples since then that no further window needs..."""
        self._skip = 0
        """...and so many of those to come."""

    @property
    def now(self) -> float:
        """When the last sample was taken."""
        return self._begun + (self._cut + int(self._held.shape[1])) / self._rate

    def restart(self, time: float) -> list[WindowBatch]:
        """Start anew with a sample taken at ``time``; return what was held back, if a window can be made of it."""
        windows = self._spec.count(self._held.shape[1])
        rest = [self._take(windows)] if windows else []
        self._held = self._held[:, :0]
        self._begun, self._cut, self._skip = time, 0, 0
        return rest

    def add(self, samples: FloatArray) -> list[WindowBatch]:
        """Take in samples that follow on those before them, (channels, samples); return the batches that are whole."""
        found = []
        self._held = np.concatenate([self._held, samples], axis=1)
        self._drop()
        while self._spec.count(self._held.shape[1]) >= self._batch:
            found.append(self._take(self._batch))
        return found

    def _take(self, windows: int) -> WindowBatch:
        wanted = (windows - 1) * self._spec.step + self._spec.length
        cut = WindowBatch(self._held[:, :wanted].copy(), self._begun + self._cut / self._rate, windows)
        self._skip = windows * self._spec.step
        self._drop()
        return cut

    def _drop(self) -> None:
        """Give up samples that no further window needs; between windows that do not touch some are still to come."""
        dropped = min(self._skip, self._held.shape[1])
        if dropped:
            self._held = self._held[:, dropped:].copy()
            self._cut, self._skip = self._cut + dropped, self._skip - dropped

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next batch depends on, as copies."""
        return {
            "held": torch.from_numpy(self._held.copy()),
            "begun": torch.tensor(self._begun, dtype=torch.float64),
            "cut": torch.tensor([self._cut, self._skip]),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        held = state["held"]
        if held.ndim != 2 or len(held) != len(self._held) or held.dtype != torch.float32:
            raise BundleError(
                f"held samples of shape {tuple(held.shape)}; expected ({len(self._held)}, samples): "
                f"the state is of a machine with other channels"
            )
        self._held = held.numpy().copy()
        self._begun = float(state["begun"])
        self._cut, self._skip = (int(count) for count in state["cut"])
