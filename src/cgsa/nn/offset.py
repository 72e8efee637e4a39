"""Whether the static offset of a sensor, such as gravity on an accelerometer, is that of the training.

The mean of a window says how the sensor is mounted, whatever the machine does. So it
is compared with the means of training windows, and with what these would be if the
sensor were rotated, two channels were swapped, or the sensor were not connected.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cgsa.errors import ConfigError

UNLIKE_OFFSET = "static offset unlike that of training: is the sensor loose or mounted otherwise?"
NAMED_NEARNESS = 2.0
"""How many times nearer to an imitation than to training an offset must be to be named after it."""
EXACT = "donot_use_mm_for_euclid_dist"
MAX_POINTS, MAX_IMITATIONS = 512, 256


@dataclass(frozen=True)
class OffsetConfig:
    """The comparison of static offsets."""

    channels: tuple[int, ...]
    """Channels that are compared, counted from 0."""
    points: int
    """Number of training windows to compare with."""
    questions: tuple[str, ...]
    """What to ask if an offset is like that of each imitation."""

    def __post_init__(self) -> None:
        if not self.channels or sorted(set(self.channels)) != [*self.channels] or self.channels[0] < 0:
            raise ConfigError(f"offsets of channels {list(self.channels)}; expected different numbers, in order")
        if not 0 < self.points <= MAX_POINTS or len(self.questions) > MAX_IMITATIONS:
            raise ConfigError(
                f"{self.points} offsets of training and {len(self.questions)} imitations; expected 1 to {MAX_POINTS} "
                f"and at most {MAX_IMITATIONS}"
            )

    def question(self, number: int) -> str:
        """Return the text of a question, counted from 0; the last one fits no imitation."""
        return (*self.questions, UNLIKE_OFFSET)[number]


class OffsetCheck(nn.Module):
    """How far the offsets of windows are from those of training, and which question they raise."""

    scale: Tensor
    """Usual size of the offset of all channels with the same unit, (channels,)."""
    genuine: Tensor
    """Means of training windows in units of the scale, (points, channels)."""
    imitated: Tensor
    """The same as each imitation would have them, (imitations, points, channels)."""
    usual: Tensor
    """Usual distance of held-out windows from the nearest of the training."""
    limits: Tensor
    """How many times nearer to an imitation than to training an offset must be, (imitations,)."""
    farthest: Tensor
    """Distance beyond which an offset is unlike that of training."""

    def __init__(self, config: OffsetConfig) -> None:
        super().__init__()
        self.channels = list(config.channels)
        points, imitations = (config.points, len(self.channels)), len(config.questions)
        self.register_buffer("scale", torch.ones(len(self.channels)))
        self.register_buffer("genuine", torch.zeros(points))
        self.register_buffer("imitated", torch.zeros(imitations, *points))
        self.register_buffer("usual", torch.ones(()))
        self.register_buffer("limits", torch.ones(imitations))
        self.register_buffer("farthest", torch.ones(()))

    def forward(self, means: Tensor) -> tuple[Tensor, Tensor]:
        """Return the share of the limit that windows reach, and the question that they would raise, counted from 0.

        ``means`` has the mean of every channel, (windows, channels).
        """
        offset = means[:, self.channels] / self.scale
        distance = nearest(offset, self.genuine)
        # Nearer to an imitation than held-out windows usually are to training says no more.
        nearness = distance[:, None] / (nearest(offset, self.imitated).T + self.usual)
        shares = torch.cat([nearness / self.limits, (distance / self.farthest)[:, None]], dim=1)
        best, named = nearness.max(dim=1)
        return shares.amax(dim=1), torch.where(best > NAMED_NEARNESS, named, len(self.limits))


def nearest(means: Tensor, points: Tensor) -> Tensor:
    """Return the distance of each mean (windows, channels) from the nearest point (..., points, channels)."""
    # Not by matrix products, which lose the digits that a large common offset leaves.
    between = torch.cdist(means.expand(*points.shape[:-2], *means.shape), points, compute_mode=EXACT)
    return between.amin(dim=-1)
