"""Files of named arrays (NPZ, MAT, HDF5): which arrays are the signals, and what the rest states about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cgsa.data.columns import single_precision
from cgsa.data.readers.clock import TIME_NAME, TIME_UNITS, Clock
from cgsa.data.readers.csv_header import name_and_unit
from cgsa.data.readers.own_names import shared_names
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import BLOCK_SAMPLES, SignalFile
from cgsa.data.slow_series import SlowSeries
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError

MIN_SAMPLES = 16
"""A shorter array is a parameter, not a signal."""
SLOWER = 2
"""A series of fewer samples by this factor is one of a slower sensor."""
MAX_LISTED = 12
RATE_NAMES = re.compile(
    r"f_?s|sr|rate|sampl(?:e|es|ing)?[_ ]?(?:rate|freq|frequency)(?:[_ ]?hz)?|fsamp|sampling[_ ]?frequency",
    re.IGNORECASE,
)
SHAFT_RATE = "rate"
"""Where several rates are stated, this name is that of the shaft's."""
STEP_NAMES = re.compile(
    r"dt|delta_?t|t_?s|(?:wf_|x_?)?increment|sampl(?:e|ing)[_ ]?(?:interval|period|time)", re.IGNORECASE
)
CHANNEL_NAMES = re.compile(r"(?:channel|column|signal|sensor)s?(?:_?names?)?|names?", re.IGNORECASE)
UNIT_NAMES = re.compile(r"(?:channel_?)?units?", re.IGNORECASE)


class Sliceable(Protocol):
    """An array in memory or on disk."""

    def __getitem__(self, key: Any, /) -> Any:
        """Return a part as an array."""


class ArrayShape(NamedTuple):
    """An array of numbers, without its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def long(self) -> tuple[int, ...]:
        """Its sides that are longer than 1."""
        return tuple(side for side in self.shape if side != 1)

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


Load = Callable[[Sequence[str]], AbstractContextManager[Mapping[str, Sliceable]]]
"""Opens a file for reading some of its arrays."""


@dataclass(frozen=True)
class ArrayContent:
    """What a file of arrays holds. Names are paths; their parts are separated by a slash, a dot or ``@``."""

    path: Path
    format: str
    load: Load
    arrays: Mapping[str, ArrayShape]
    scalars: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    named: bool = True
    """Whether the file names its arrays."""
    rasters: Mapping[str, str] = field(default_factory=dict)
    """Arrays that are series over the same time, with the name of their time raster; empty if they have none."""

    def signal_file(self, array: str | None) -> SignalFile:
        """Return the signals: the array of the given name, or those that can be meant."""
        signals = {name: entry for name, entry in self.arrays.items() if _is_signal(entry)}
        chosen, several = self._choose(signals, array)
        first = signals[chosen[0]]
        channels, units, axis, named = self._columns(chosen, signals)
        samples = first.long[axis] if len(first.long) == 2 else first.long[0]
        notes = [*self.notes, *self._unused(chosen)]
        rate, rate_name, rate_notes = self._rate(chosen[0], samples)
        slow = {**self._single_numbers(), **self._slow_series(chosen)}
        if slow:
            short = shared_names([*channels, *slow], self.path.stem)
            listed = ", ".join(short.get(name, name) for name in slow)
            notes.append(f"values besides the channels: {listed}; --condition-column reads one as a condition")
        return SignalFile(
            path=self.path,
            format=self.format,
            channels=channels,
            units=units,
            sample_rate=rate,
            samples=samples,
            read=lambda size: self._blocks(chosen, {name: signals[name] for name in chosen}, axis, samples, size),
            named=named,
            slow_series=slow | ({} if rate_name is None else {_last(rate_name): _number(self.scalars[rate_name])}),
            rate_name=None if rate_name is None else _last(rate_name),
            array=", ".join(chosen) if several else None,
            notes=(*notes, *rate_notes),
        )

    def _choose(self, signals: Mapping[str, ArrayShape], array: str | None) -> tuple[list[str], bool]:
        """Return the names of the arrays that make up the recording, and whether others could be meant."""
        candidates = {name: entry for name, entry in signals.items() if not _is_time(name)}
        if array is not None:
            if array in signals:
                return [array], len(candidates) > 1
            inside = [name for name in candidates if name.startswith((f"{array}/", f"{array}."))]
            inside = inside or [name for name in candidates if fnmatchcase(name, array)]
            if not inside:
                known = self._listing(self.arrays) or "none"
                raise DataError(f"{self.path}: no array {array!r} of signals; the file holds {known}")
            candidates = {name: candidates[name] for name in inside}
        if not candidates:
            raise DataError(
                f"{self.path}: holds no array of signals; found {self._listing(self.arrays) or 'no array of numbers'}; "
                f"expected one of real numbers with 1 or 2 dimensions and at least {MIN_SAMPLES} samples"
            )
        candidates = dict(self._fastest(candidates))
        sides = {entry.long for entry in candidates.values()}
        if len(candidates) > 1 and (len(sides) > 1 or len(next(iter(sides))) > 1):
            first = next(iter(candidates))
            # The name of another file is not the same, where the file is named in it.
            common = first.replace(self.path.stem, "*", 1)
            raise DataError(
                f"{self.path}: holds several arrays of signals: {self._listing(candidates)}; name one, as in "
                f"array={common!r} (--array {common!r})"
            )
        return list(candidates), array is not None

    def _fastest(self, candidates: Mapping[str, ArrayShape]) -> Mapping[str, ArrayShape]:
        """Return those that make up the recording, if the file says so: of series, those with the most samples."""
        series = {name: candidates[name] for name in candidates if name in self.rasters}
        if series:
            longest = max(max(entry.long) for entry in series.values())
            fastest = {name: entry for name, entry in series.items() if max(entry.long) == longest}
            rasters = {self.rasters[name] for name in fastest}
            # Without rasters of their own, series of about the same length are recordings one after the other.
            slower = all(
                max(entry.long) * SLOWER <= longest or self.rasters[name] not in rasters
                for name, entry in series.items()
                if name not in fastest
            )
            return fastest if slower else series
        if len({entry.long for entry in candidates.values()}) > 1:
            # A file may hold a copy of the arrays of another one.
            own = shared_names(list(candidates), self.path.stem)
            return {name: candidates[name] for name in own} or candidates
        return candidates

    def _columns(
        self, chosen: Sequence[str], signals: Mapping[str, ArrayShape]
    ) -> tuple[tuple[str, ...], tuple[str | None, ...], int, bool]:
        """Return names and units of the channels, the axis of the time, and whether the file states the names."""
        sides = signals[chosen[0]].long
        if len(sides) == 1:
            return (*self._vectors(chosen), 0, self.named)
        # Shape by shape: which axis is the time, and the names of the channels along the other one.
        named = {axis: self._stated(chosen[0], CHANNEL_NAMES, sides[1 - axis]) for axis in (0, 1)}
        axis = int(np.argmax(sides))
        if max(sides) < 2 * min(sides):
            if bool(named[0]) == bool(named[1]):
                raise DataError(
                    f"{self.path}: {chosen[0]} has shape {signals[chosen[0]].shape}; it is not clear which side is the "
                    f"time; expected at least twice as many samples as channels"
                )
            axis = 0 if named[0] else 1
        count = sides[1 - axis]
        stated = self._stated(chosen[0], UNIT_NAMES, count)
        common = self._stated(chosen[0], UNIT_NAMES, 1) if stated is None else None
        units = [None if unit is None else normalise_unit(unit) for unit in stated or (common or (None,)) * count]
        names = named[axis]
        if names is None:
            return tuple(f"column {place}" for place in range(1, count + 1)), tuple(units), axis, False
        pairs = [name_and_unit(name) for name in names]
        both = tuple(given or unit for (_, given), unit in zip(pairs, units, strict=True))
        return tuple(name for name, _ in pairs), both, axis, True

    def _vectors(self, chosen: Sequence[str]) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
        """Return names and units of channels that are an array each."""
        pairs = [name_and_unit(_last(name)) for name in chosen]
        names = [name if self.named else "column 1" for name, _ in pairs]
        if len(set(names)) < len(names):
            names = list(chosen)
        label = self._stated(chosen[0], CHANNEL_NAMES, 1) if len(chosen) == 1 else None
        stated = self._stated(chosen[0], UNIT_NAMES, len(chosen)) or [self._own_unit(name) for name in chosen]
        units = [
            given if unit is None else normalise_unit(unit) for unit, (_, given) in zip(stated, pairs, strict=True)
        ]
        return tuple(label or names), tuple(units)

    def _own_unit(self, name: str) -> str | None:
        """Return the unit that an attribute of an array states."""
        found = [
            text for key, text in self.texts.items() if key.startswith(f"{name}@") and UNIT_NAMES.fullmatch(_last(key))
        ]
        return found[0][0] if found and len(found[0]) == 1 else None

    def _stated(self, name: str, pattern: re.Pattern[str], count: int) -> tuple[str, ...] | None:
        """Return the text with ``count`` parts whose name fits, the nearest to an array."""
        fitting = {
            key: text for key, text in self.texts.items() if pattern.fullmatch(_last(key)) and len(text) == count
        }
        nearest = max(fitting, key=lambda key: _shared(key, name), default=None)
        return None if nearest is None or not all(fitting[nearest]) else fitting[nearest]

    def _rate(self, name: str, samples: int) -> tuple[float | None, str | None, list[str]]:
        """Return the sample rate, the name of the number that states it, and notes."""
        found = {
            key: value if RATE_NAMES.fullmatch(_last(key)) else 1 / value
            for key, value in self.scalars.items()
            if value > 0 and (RATE_NAMES.fullmatch(_last(key)) or STEP_NAMES.fullmatch(_last(key)))
        }
        if not _agree(found.values()):
            found = {key: rate for key, rate in found.items() if _last(key).lower() != SHAFT_RATE}
        near = max((_shared(key, name) for key in found), default=0)
        nearest = {key: rate for key, rate in found.items() if _shared(key, name) == near}
        if not _agree(nearest.values()):
            listed = ", ".join(f"{key} {rate:g} Hz" for key, rate in found.items())
            return None, None, [f"several sample rates are stated: {listed}"]
        if nearest:
            key, rate = next(iter(nearest.items()))
            return _whole(rate), key, [f"sample rate {_whole(rate):.9g} Hz from {key}"]
        rate_of_clock, notes = self._clock_rate(name, samples)
        return rate_of_clock, None, notes

    def _clock_rate(self, name: str, samples: int) -> tuple[float | None, list[str]]:
        """Return the rate by the time raster of a series, or by the nearest array of times."""
        raster = self.rasters.get(name, "")
        of_raster = [key for key in self._raster_times(raster) if self.arrays[key].long == (samples,)]
        times = [key for key, entry in self.arrays.items() if _is_time(key) and entry.long == (samples,)]
        if not (of_raster or times):
            return None, []
        key = of_raster[0] if of_raster else max(times, key=lambda time: _shared(time, name))
        own, unit = (raster, None) if of_raster else name_and_unit(_last(key))
        unit = unit or self._own_unit(key)
        clock = Clock(own, unit if unit in TIME_UNITS else None)
        with self.load([key]) as loaded:
            for start in range(0, samples, BLOCK_SAMPLES):
                clock.add(_line(loaded[key], self.arrays[key], slice(start, start + BLOCK_SAMPLES)))
        return clock.rate()

    def _raster_times(self, raster: str) -> list[str]:
        """Return the arrays of times of a raster: those beside its name that are no series."""
        places = [key[: -len(_last(key))] for key, text in self.texts.items() if raster and text == (raster,)]
        return [key for place in places for key in self.arrays if key.startswith(place) and key not in self.rasters]

    def _slow_series(self, chosen: Sequence[str]) -> dict[str, SlowSeries]:
        """Return the series that are not among the channels."""
        found = {}
        for name, raster in self.rasters.items():
            entry = self.arrays.get(name)
            if name not in chosen and entry is not None and len(entry.long) == 1:
                rate, _ = self._clock_rate(name, entry.long[0]) if raster else (None, [])
                found[_last(name)] = SlowSeries(partial(self._values, name), rate)
        return found

    def _values(self, name: str) -> npt.NDArray[np.float64]:
        with self.load([name]) as loaded:
            return np.asarray(_line(loaded[name], self.arrays[name], slice(None)), np.float64)

    def _single_numbers(self) -> dict[str, SlowSeries]:
        """Return the single numbers that may be operating conditions: no rates, and nothing deep in a structure."""
        found = {}
        for name, value in self.scalars.items():
            last = _last(name)
            if len(_parts(name)) <= 2 and not (RATE_NAMES.fullmatch(last) or STEP_NAMES.fullmatch(last)):
                found[last if last not in found else name] = _number(value)
        return found

    def _blocks(
        self, chosen: Sequence[str], entries: Mapping[str, ArrayShape], axis: int, samples: int, size: int
    ) -> Iterator[FloatArray]:
        with self.load(chosen) as loaded:
            for start in range(0, samples, size):
                part = slice(start, min(start + size, samples))
                yield np.concatenate(
                    [single_precision(_rows(loaded[name], entries[name], axis, part)) for name in chosen]
                )

    def _unused(self, chosen: Sequence[str]) -> list[str]:
        unused = [
            f"{name} ({entry})"
            for name, entry in self.arrays.items()
            if 0 not in entry.shape and not (name in chosen or _is_time(name) or name in self.rasters)
        ]
        return (
            [f"not used: {'; '.join(unused[:MAX_LISTED])}{'; ...' if len(unused) > MAX_LISTED else ''}"]
            if unused
            else []
        )

    def _listing(self, arrays: Mapping[str, ArrayShape]) -> str:
        texts = [f"{name} ({entry})" for name, entry in arrays.items()]
        return ", ".join(texts[:MAX_LISTED]) + (
            f" and {len(texts) - MAX_LISTED} more" if len(texts) > MAX_LISTED else ""
        )


def _rows(array: Sliceable, entry: ArrayShape, axis: int, part: slice) -> npt.NDArray[Any]:
    """Return a part of an array as rows, (channels, samples)."""
    if len(entry.long) == 1:
        return _line(array, entry, part)[None]
    places = [place for place, side in enumerate(entry.shape) if side != 1]
    key = tuple(part if place == places[axis] else slice(None) for place in range(len(entry.shape)))
    block = np.asarray(array[key]).reshape([-1 if place == axis else entry.long[place] for place in (0, 1)])
    return block if axis == 1 else block.T


def _line(array: Sliceable, entry: ArrayShape, part: slice) -> npt.NDArray[Any]:
    key = tuple(part if side != 1 else slice(None) for side in entry.shape)
    return np.asarray(array[key]).reshape(-1)


def _is_signal(entry: ArrayShape) -> bool:
    return entry.dtype.kind in "iuf" and len(entry.long) in {1, 2} and max(entry.long) >= MIN_SAMPLES


def _is_time(name: str) -> bool:
    return TIME_NAME.fullmatch(name_and_unit(_last(name))[0]) is not None


def _last(name: str) -> str:
    """Return the last part of a path."""
    return _parts(name)[-1]


def _parts(name: str) -> list[str]:
    return re.split(r"[/.@]", name)


def _shared(one: str, other: str) -> int:
    """Return how many leading parts two paths have in common."""
    pairs = zip(_parts(one), _parts(other), strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(one.count("/"), other.count("/")) + 1)


def _number(value: float) -> SlowSeries:
    """Return a single number as a series."""
    return SlowSeries(partial(np.array, [value], np.float64))


def _agree(rates: Iterable[float]) -> bool:
    """Return whether rates mean the same."""
    known = list(rates)
    return not known or max(known) / min(known) <= 1 + 1e-6


def _whole(rate: float) -> float:
    """Return a rate that a step states, without the rounding of the step."""
    return float(f"{rate:.9g}")
