"""Clipping limits: the ends of a sensor's range, learnt from windows that clip.

A sensor clips at one value. A window with enough samples at exactly that value
reveals it as a clipping limit. From then on a single sample at the limit counts
as clipped, until a sample beyond it shows that the limit does not exist, or no
longer exists.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from cgsa.data.equal_samples import BoolArray, Extremes
from cgsa.errors import BundleError

CERTAIN_SAMPLES = 2
"""A clipped window has at least this many samples at the limit, and a single one at its other extreme."""


class ClippingLimits:
    """The clipping limits of each channel that are known so far."""

    def __init__(self, channels: int) -> None:
        # Upper limits and negated lower limits, so that both are maxima; NaN if unknown.
        self._known = np.full((2, channels), np.nan)

    def update(self, top: Extremes, bottom: Extremes, clipped: BoolArray) -> BoolArray:
        """Learn from successive windows and return which of them reach a clipping limit, (channels, windows).

        ``clipped`` says whether the numbers of samples at the extremes alone make it a clipped window. Infinite values
        are ignored.
        """
        reached = np.zeros(clipped.shape, dtype=np.bool_)
        for side, (values, count) in enumerate((top, (-bottom[0], bottom[1]))):
            largest = values.max(axis=1)
            at_largest = values == largest[:, None]
            known = self._known[side]
            is_limit = (clipped & at_largest & (count >= CERTAIN_SAMPLES)).any(axis=1) | (known == largest)
            is_limit &= np.isfinite(largest)
            self._known[side] = np.where(is_limit, largest, np.where(largest > known, np.nan, known))
            reached |= at_largest & is_limit[:, None]
        return reached

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next result depends on, as copies."""
        return {"rails": torch.from_numpy(self._known.copy())}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        limits = state.get("rails")
        if limits is None or limits.shape != self._known.shape or limits.dtype != torch.float64:
            raise BundleError(
                f"clipping limits of shape {None if limits is None else tuple(limits.shape)}; expected "
                f"{self._known.shape}: the state belongs to a machine with other channels"
            )
        self._known = limits.numpy().copy()
