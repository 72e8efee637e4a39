"""From what a file holds, and what the caller adds, to a recording."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.readers.own_names import find_name, shared_names, without_token
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.signal_file import RATE_TOLERANCE, SignalFile
from cgsa.data.units import Conversion, normalise_unit, unit_conversion
from cgsa.errors import DataError


@dataclass(frozen=True)
class _Column:
    """One column of a recording."""

    row: int
    """Its place among the channels of the file."""
    name: str
    unit: str | None
    conversion: Conversion


@dataclass(frozen=True)
class RecordingSelection:
    """What the caller states about a file; see :func:`cgsa.data.readers.read_recording`."""

    sample_rate: float | None
    channels: Sequence[str] | Mapping[str, str] | None
    units: str | Sequence[str] | Mapping[str, str] | None
    conditions: Sequence[str] | Mapping[str, str]

    def recording(self, file: SignalFile) -> Recording:
        """Return the recording in a file.

        A file that states everything gives its own recording if the caller states nothing.
        """
        if file.recording is not None and self == RecordingSelection(None, None, None, ()):
            return file.recording()
        if file.rate_name is not None and file.rate_name in self.conditions:
            file = file.without_rate()
        rate, notes = self._rate(file)
        names = self._names(file)
        traces, slow = self._traces(file, names)
        chosen = self._chosen(file, names, traces)
        columns = self._columns(file, chosen, traces)
        stated = {column.name for column in columns[: len(chosen)] if column.unit is not None}
        missing = [name for name in chosen.values() if name not in stated]
        if missing:
            raise DataError(
                f"{file.path}: states no unit of {', '.join(missing)}; pass units (--units), such as units='g' for all "
                f"channels or units={{{missing[0]!r}: 'g'}}"
            )
        data = _read(file, columns)
        notes += [
            f"{column.name} converted from {file.units[column.row]} to {column.unit}"
            for column in columns
            if column.conversion != Conversion(1.0, 0.0)
        ]
        notes += _shortened(file, chosen)
        return Recording(
            data[: len(chosen)],
            rate,
            tuple(chosen.values()),
            tuple(column.unit or "" for column in columns[: len(chosen)]),
            {
                **dict(zip(traces.values(), data[len(chosen) :], strict=True)),
                **{new: file.slow_series[name].at_rate(rate, file.samples) for name, new in slow.items()},
            },
            label=file.label,
            source=file.source,
            notes=(*file.notes, *notes),
        ).require_finite()

    def _rate(self, file: SignalFile) -> tuple[float, list[str]]:
        if self.sample_rate is None:
            if file.sample_rate is None:
                raise DataError(f"{file.path}: {file.why_without_rate}; pass sample_rate=... in Hz (--rate)")
            return file.sample_rate, []
        if not 0 < self.sample_rate < float("inf"):
            raise DataError(f"{file.path}: sample_rate={self.sample_rate:g}; expected a positive number of Hz")
        if file.sample_rate is None:
            return self.sample_rate, [f"sample rate {self.sample_rate:g} Hz as given; the file states none"]
        if abs(file.sample_rate / self.sample_rate - 1) > RATE_TOLERANCE:
            raise DataError(
                f"{file.path}: states a sample rate of {file.sample_rate:g} Hz, but sample_rate={self.sample_rate:g} "
                f"was given; leave it out, or pass resample_to={self.sample_rate:g} to resample the file"
                + (f"; if {file.rate_name!r} is another quantity, name it as a condition" if file.rate_name else "")
            )
        return self.sample_rate, []

    def _names(self, file: SignalFile) -> tuple[str, ...]:
        """Return the names of all channels; the caller's, if the file states none."""
        given = self.channels
        if file.named or given is None or isinstance(given, Mapping) or set(given) <= set(file.channels):
            return file.channels
        if len(given) != len(file.channels):
            raise DataError(
                f"{file.path}: names no channels; {len(given)} names were given for {len(file.channels)} columns"
            )
        if len(set(given)) != len(given):
            raise DataError(f"{file.path}: the names {', '.join(given)} are not unique")
        return tuple(given)

    def _traces(self, file: SignalFile, names: tuple[str, ...]) -> tuple[dict[int, str], dict[str, str]]:
        """Return the names of the conditions: of channels by their row, of slow series by their names in the file."""
        wanted = self.conditions or {
            name: name.removeprefix("condition:") for name in file.conditions if name not in (self.channels or ())
        }
        found = _found_names(file, (*names, *file.slow_series), wanted)
        slow = {name: new for name, new in found.items() if name not in names}
        return {names.index(name): new for name, new in found.items() if name in names}, slow

    def _chosen(self, file: SignalFile, names: tuple[str, ...], traces: dict[int, str]) -> dict[int, str]:
        """Return row and name of the channels."""
        if self.channels is None or (names != file.channels and not isinstance(self.channels, Mapping)):
            chosen = {row: name for row, name in enumerate(names) if row not in traces}
        else:
            chosen = {names.index(name): new for name, new in _found_names(file, names, self.channels).items()}
        if not chosen:
            raise DataError(f"{file.path}: no channel is left; it has {', '.join(names)}")
        return chosen

    def _columns(self, file: SignalFile, chosen: dict[int, str], traces: dict[int, str]) -> list[_Column]:
        wanted: dict[str, str] = {}
        if isinstance(self.units, str):
            wanted = dict.fromkeys(chosen.values(), self.units)
        elif isinstance(self.units, Mapping):
            wanted = dict(self.units)
            known = {*chosen.values(), *traces.values(), *(file.channels[row] for row in (*chosen, *traces))}
            # A unit is also found by the name without what tells the file.
            wanted = {name if name in known else _own_name(file, name): unit for name, unit in wanted.items()}
            unknown = [name for name in wanted if name not in known]
            if unknown:
                raise DataError(
                    f"{file.path}: units name {', '.join(map(repr, unknown))}; the channels are "
                    f"{', '.join((*chosen.values(), *traces.values()))}"
                )
        elif self.units is not None:
            if len(self.units) != len(chosen):
                raise DataError(
                    f"{file.path}: {len(self.units)} units were given for {len(chosen)} channels: "
                    f"{', '.join(chosen.values())}"
                )
            wanted = dict(zip(chosen.values(), self.units, strict=True))
        return [
            _column(file, row, name, wanted.get(name, wanted.get(file.channels[row])))
            for names in (chosen, traces)
            for row, name in names.items()
        ]


def _column(file: SignalFile, row: int, name: str, wanted: str | None) -> _Column:
    given = file.units[row]
    if wanted is None or given is None:
        return _Column(row, name, given if wanted is None else normalise_unit(wanted), Conversion(1.0, 0.0))
    try:
        return _Column(row, name, normalise_unit(wanted), unit_conversion(given, wanted))
    except DataError as error:
        raise DataError(f"{file.path}: channel {name!r}: {error}") from error


def _own_name(file: SignalFile, name: str) -> str:
    return find_name(name, file.channels, file.path.stem) or name


def _found_names(file: SignalFile, names: Sequence[str], wanted: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the new names by those in the file, in which the name or number of the file may stand."""
    renamed = wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
    found = {name: find_name(name, names, file.path.stem) for name in renamed}
    missing = [name for name, own in found.items() if own is None]
    if missing:
        near = difflib.get_close_matches(missing[0], names, n=1)
        slow = f"; {missing[0]!r} is slower and may be a condition only" if missing[0] in file.slow_series else ""
        raise DataError(
            f"{file.path}: no channel {', '.join(map(repr, missing))}"
            + (f" (is it {near[0]!r}?)" if near else "")
            + f"; it has {', '.join(names)}{slow}"
        )
    if len(set(renamed.values())) != len(renamed):
        raise DataError(f"{file.path}: two channels would be named alike: {', '.join(renamed.values())}")
    return {own: renamed[name] for name, own in found.items() if own is not None}


def _shortened(file: SignalFile, chosen: Mapping[int, str]) -> list[str]:
    """Return a note if names were found without what tells the file in them."""
    names = shared_names(file.channels, file.path.stem) if file.named else {}
    short = [new for row, new in chosen.items() if names.get(file.channels[row]) == new]
    return [without_token(short)] if short else []


def _read(file: SignalFile, columns: Sequence[_Column]) -> FloatArray:
    """Return the samples of the columns, (columns, samples), converted in double precision and rounded once."""
    try:
        data = np.empty((len(columns), file.samples), np.float32)
    except MemoryError as error:
        raise DataError(
            f"{file.path}: {file.samples} samples of {len(columns)} channels do not fit into the memory; choose fewer "
            f"channels, or read it block by block with open_signal(path).blocks()"
        ) from error
    start = 0
    for block in file.blocks():
        stop = start + block.shape[1]
        for row, column in zip(data, columns, strict=True):
            factor, offset = column.conversion
            if column.conversion == Conversion(1.0, 0.0):
                row[start:stop] = block[column.row]
            else:
                with np.errstate(over="ignore"):
                    row[start:stop] = block[column.row].astype(np.float64) * factor + offset
        start = stop
    return data
