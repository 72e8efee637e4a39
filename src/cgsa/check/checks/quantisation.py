"""Channels whose resolution is too coarse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import NOTE, WARNING

COARSE = 16
"""So many different values, or fewer, in the middle of the distribution are coarse: 4 bits."""
AGAINST_SIBLINGS = 1 / 3
"""A coarse channel is out of line if it has less than this share of the different values that its siblings have."""


def find_coarse_quantisation(data: DataSummary) -> Iterator[Finding]:
    """Yield coarse channels; if the siblings are as coarse, once for the channel."""
    for name in data.channels:
        channels = data.live_channels(name)
        values = [channel.summary.statistics.values for channel in channels]
        usual = float(np.median(values)) if values else 0.0
        if 2 < usual <= COARSE:
            yield Finding(
                NOTE,
                f"Channel {name} has about {usual:.0f} different values in most recordings",
                "Anything smaller than a step of the sensor is lost, such as the first signs of a bearing fault",
                "Use a smaller measuring range or a logger with more bits if early faults matter",
                channel=name,
            )
        for channel, count in zip(channels, values, strict=True):
            if count <= COARSE and count < AGAINST_SIBLINGS * usual:
                yield Finding(
                    WARNING,
                    f"{channel.recording.name}: {name} has {count} different values; the other recordings have "
                    f"{usual:.0f}",
                    "The rounding error is a noise of its own, by which a model can recognise this recording",
                    "Export the recording again with more digits, or record it with the range of the others",
                    (channel.recording.name,),
                    name,
                )


CHECK = Check("channels with a coarse resolution", find_coarse_quantisation)
