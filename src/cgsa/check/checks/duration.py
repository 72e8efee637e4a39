"""Recordings that are much shorter than their siblings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import WARNING

SHORT = 0.25
"""Share of the usual duration below which a recording is short."""


def find_short_recordings(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings with less than a quarter of the usual duration."""
    usual = float(np.median([one.seconds for one in data.readable])) if data.readable else 0.0
    for one in data.readable:
        if one.seconds < SHORT * usual:
            yield Finding(
                WARNING,
                f"{one.name} lasts {one.seconds:.3g} s; most recordings last {usual:.3g} s",
                "Windows are as long as the shortest recording allows, so that this one shortens those of all",
                "Record it again, or leave it out",
                (one.name,),
            )


CHECK = Check("recordings that are much shorter than the others", find_short_recordings)
