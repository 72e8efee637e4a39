"""Copies of envelope spectra as the machine would have them at other speeds.

How often impacts come is proportional to the speed, whereas the resonances that
they excite stay where they are. So the envelope at another speed has the same
lines at frequencies multiplied by the ratio of the speeds. A classifier that is
fitted to such copies, too, knows families of lines instead of frequencies.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.nn.orders import stretch

COPIES = 2
"""Copies of every window, beside the window itself."""
LEAST_FACTOR, MOST_FACTOR = 0.6, 1.67
"""Ratios of the speed of a copy to that of its window."""
GOLDEN = (5**0.5 - 1) / 2


def with_stretched_copies(features: Tensor, bins: int) -> Tensor:
    """Return the windows, and after them their copies, whose factors are evenly spread over all windows."""
    every = features.repeat(COPIES, 1)
    # Multiples of the golden ratio fill an interval evenly, whatever their number.
    place = torch.arange(1, len(every) + 1, device=features.device, dtype=torch.float64) * GOLDEN % 1
    factors = LEAST_FACTOR * (MOST_FACTOR / LEAST_FACTOR) ** place
    return torch.cat([features, stretch(every, bins, factors)])


def recordings_of_copies(recordings: Tensor) -> Tensor:
    """Return the recording of every window and copy: each copy of a recording is a recording of its own."""
    many = int(recordings.max()) + 1
    return torch.cat([recordings + many * number for number in range(1 + COPIES)])
