"""Copies of envelope spectra as the machine would have them at other speeds.

How often impacts come is proportional to the speed, whereas the resonances that
they excite stay where they are. So the envelope at another speed has the same
lines at frequencies multiplied by the ratio of the speeds. A classifier that is
fitted to such copies, too, knows families of lines instead of frequencies.
"""

from __future__ import annotations

import torch
from torch import Tensor

COPIES = 2
"""Copies of every window, beside the window itself."""
LEAST_FACTOR, MOST_FACTOR = 0.6, 1.67
"""Ratios of the speed of a copy to that of its window."""
GOLDEN = (5**0.5 - 1) / 2


def stretch(features: Tensor, bins: int, factors: Tensor) -> Tensor:
    """Return the lines of each window at frequencies multiplied by its factor.

    Between lines, values are interpolated. Lines that lie beyond the last one get the mean of the upper eighth, which
    is the level of the noise.

    Parameters
    ----------
    features
        (windows, channels * bins); the first line is at one step of the frequency, since that at zero is left out.
    bins
        Lines per channel.
    factors
        One per window.
    """
    lines = features.reshape(len(features), -1, bins)
    source = torch.arange(1, bins + 1, device=features.device) / factors[:, None] - 1
    below = source.floor().clamp(0, bins - 1)
    share = (source - below).clamp(0, 1).to(features)[:, None]
    at, after = (place.clamp(max=bins - 1).long()[:, None].expand_as(lines) for place in (below, below + 1))
    moved = lines.gather(2, at) * (1 - share) + lines.gather(2, after) * share
    noise = lines[..., -max(1, bins // 8) :].mean(dim=-1, keepdim=True)
    return torch.where(source[:, None] <= bins - 1, moved, noise).flatten(1)


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
