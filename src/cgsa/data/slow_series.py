"""Series beside the channels of a file: of slower sensors, and single numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cgsa.data.columns import single_precision
from cgsa.data.recording import FloatArray


@dataclass(frozen=True, eq=False)
class SlowSeries:
    """Fewer values than the channels have samples, over the same time: of a slow sensor, or a single number."""

    read: Callable[[], npt.NDArray[np.float64]] = field(repr=False)
    """Returns all values in order."""
    sample_rate: float | None = None
    """In Hz; None if the file states none: the values are then spread evenly over the recording."""

    def at_rate(self, sample_rate: float, samples: int) -> FloatArray:
        """Return one value per sample of the channels, interpolated linearly.

        >>> SlowSeries(lambda: np.array([0.0, 3.0])).at_rate(100, 4)
        array([0., 1., 2., 3.], dtype=float32)
        """
        values = self.read()
        last = max(len(values) - 1, 1)
        step = self.sample_rate / sample_rate if self.sample_rate else last / max(samples - 1, 1)
        # Before the first value and behind the last one, these count.
        return single_precision(np.interp(np.arange(samples) * step, np.arange(len(values)), values))
