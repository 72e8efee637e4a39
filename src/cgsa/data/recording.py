"""Recordings: the sensor signals of one machine during one run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cgsa.errors import DataError

FloatArray: TypeAlias = npt.NDArray[np.float32]
Interval: TypeAlias = tuple[str, int, int]
"""A source with the first sample and the one after the last; the leak check compares intervals."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Named channels over time, with the operating conditions.

    ``signal`` is ``(channels, samples)`` so that a window of one channel is
    contiguous in memory. Cutting a recording makes views, never copies.
    """

    signal: FloatArray
    """Samples in physical units, shape (channels, samples)."""
    sample_rate: float
    """In Hz."""
    channels: tuple[str, ...]
    """Name of each row of ``signal``."""
    units: tuple[str, ...]
    """Physical unit of each row of ``signal``."""
    conditions: Mapping[str, FloatArray] = field(default_factory=dict)
    """Operating conditions over time, one value per sample, such as torque (Nm) and speed (rpm)."""
    label: str | None = None
    """State of the machine if known, such as ``gear_wear``."""
    source: str = "memory"
    """Origin of the raw samples; the leak check compares sources."""
    offset: int = 0
    """Index of the first sample within ``source``."""
    notes: tuple[str, ...] = ()
    """What the reader found unusual and how it handled it."""
    mean: npt.NDArray[np.float64] | None = None
    """Mean of every channel over the whole of ``source``, which :meth:`centred` removes; None if it must stay."""

    def __post_init__(self) -> None:
        if self.signal.ndim != 2:
            raise DataError(f"{self.source}: signal has shape {self.signal.shape}; expected (channels, samples)")
        if not (math.isfinite(self.sample_rate) and self.sample_rate > 0):
            raise DataError(f"{self.source}: sample rate {self.sample_rate} Hz; expected a positive number")
        rows, samples = self.signal.shape
        if not (len(self.channels) == len(self.units) == rows):
            raise DataError(
                f"{self.source}: {rows} signal rows but {len(self.channels)} channel names "
                f"and {len(self.units)} units; expected one of each per row"
            )
        if self.mean is not None and self.mean.shape != (rows,):
            raise DataError(f"{self.source}: mean has shape {self.mean.shape}; expected one value per row, ({rows},)")
        for name, trace in self.conditions.items():
            if trace.shape != (samples,):
                raise DataError(
                    f"{self.source}: condition {name!r} has shape {trace.shape}; "
                    f"expected one value per sample, ({samples},)"
                )

    @property
    def samples(self) -> int:
        """Number of samples per channel."""
        return int(self.signal.shape[1])

    @property
    def interval(self) -> Interval:
        """The raw samples of this recording."""
        return self.source, self.offset, self.offset + self.samples

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.samples / self.sample_rate

    def cut(self, start: int, stop: int) -> Recording:
        """Return samples ``start`` to ``stop`` (exclusive) as views of this recording."""
        if not 0 <= start < stop <= self.samples:
            raise DataError(f"{self.source}: cannot cut samples {start} to {stop} out of {self.samples}")
        return replace(
            self,
            signal=self.signal[:, start:stop],
            conditions={name: trace[start:stop] for name, trace in self.conditions.items()},
            offset=self.offset + start,
        )

    def select(self, channels: Sequence[str]) -> Recording:
        """Return this recording with exactly ``channels``, in that order."""
        if tuple(channels) == self.channels:
            return self
        missing = [name for name in channels if name not in self.channels]
        if missing:
            raise DataError(
                f"{self.source}: no channel {', '.join(map(repr, missing))}; it has {', '.join(self.channels)}"
            )
        rows = [self.channels.index(name) for name in channels]
        return replace(
            self,
            signal=np.ascontiguousarray(self.signal[rows]),
            channels=tuple(channels),
            units=tuple(self.units[row] for row in rows),
            mean=None if self.mean is None else self.mean[rows],
        )

    def centred(self) -> Recording:
        """Return this recording without the mean that it states; unchanged if it states none."""
        if self.mean is None:
            return self
        return replace(self, signal=(self.signal - self.mean[:, None]).astype(np.float32), mean=None)

    def require_finite(self) -> Recording:
        """Return this recording; raise an error that locates the first NaN or infinity, if there is one."""
        for name, trace in [*zip(self.channels, self.signal, strict=True), *self.conditions.items()]:
            bad = ~np.isfinite(trace)
            if bad.any():
                first = self.offset + int(bad.argmax())
                raise DataError(
                    f"{self.source}: column {name!r} has {int(bad.sum())} NaN or infinite values, "
                    f"first at row {first}; repair or cut them out"
                )
        return self


def grouped_notes(noted: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return every different note once, with its source; ``noted`` has sources with their notes.

    >>> grouped_notes([("a.csv", ["no torque"]), ("b.csv", ["no torque", "10 s"]), ("b.csv", ["10 s"])])
    ['no torque (2 recordings, such as a.csv)', 'b.csv: 10 s']
    """
    sources: dict[str, dict[str, None]] = {}
    for source, notes in noted:
        for note in notes:
            sources.setdefault(note, {})[source] = None
    return [
        f"{first}: {note}" if len(found) == 1 else f"{note} ({len(found)} recordings, such as {first})"
        for note, found in sources.items()
        for first in [*found][:1]
    ]
