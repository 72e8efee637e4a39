"""The ends of a sensor's range, found where it clips and kept in mind.

A sensor that clips does so at one value. Where enough samples of a window stand
at it, that value is a rail: from then on a single sample at it is a clipped one,
until a sample beyond it shows that there is no such rail, or none any more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.data.equal_samples import BoolArray
from cgsa.data.recording import FloatArray
from cgsa.errors import BundleError

CERTAIN_SAMPLES = 2
"""A window that clips tells which of its extremes is the rail: at the other one it has a single sample."""


class ClippingLimits:
    """The rails of each channel that are known so far.

    Parameters
    ----------
    channels
        Of the signal.
    """

    def __init__(self, channels: int) -> None:
        # Upper rails, and lower ones with their signs turned, so that both are upper ones; NaN where none is known.
        self._known = np.full((2, channels), np.nan)

    def touched(
        self,
        top: tuple[FloatArray, npt.NDArray[np.intp]],
        bottom: tuple[FloatArray, npt.NDArray[np.intp]],
        clipped: BoolArray,
    ) -> BoolArray:
        """Learn from windows that follow each other, and return which of them reach a rail, (channels, windows).

        Of each window its largest and its smallest value are wanted, with how many samples are exactly there, and
        whether that makes it a clipped one. Values that are not finite tell nothing.
        """
        reached = np.zeros(clipped.shape, dtype=np.bool_)
        for side, (values, count) in enumerate(((top[0], top[1]), (-bottom[0], bottom[1]))):
            most = values.max(axis=1)
            here = values == most[:, None]
            found = (clipped & here & (count >= CERTAIN_SAMPLES)).any(axis=1) | (self._known[side] == most)
            found &= np.isfinite(most)
            self._known[side] = np.where(found, most, np.where(most > self._known[side], np.nan, self._known[side]))
            reached |= here & found[:, None]
        return reached

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next answer depends on, as copies."""
        return {"rails": torch.from_numpy(self._known.copy())}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        rails = state.get("rails")
        if rails is None or rails.shape != self._known.shape or rails.dtype != torch.float64:
            raise BundleError(
                f"rails of shape {None if rails is None else tuple(rails.shape)}; expected {self._known.shape}: "
                f"the state is of a machine with other channels"
            )
        self._known = rails.numpy().copy()
