"""What a person states about files that do not say everything themselves, in one place for all commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cgsa.data.readers import open_signal, read_recording
from cgsa.data.readers.own_names import shared_names
from cgsa.data.readers.selection import RecordingSelection
from cgsa.data.recording import Recording
from cgsa.data.resampling import resample
from cgsa.data.signal_file import SignalFile
from cgsa.data.steady_state import UNKNOWN_UNIT
from cgsa.errors import ConfigError, DataError


@dataclass(frozen=True)
class ReadOptions:
    """How files are read; whatever is None is taken from the file."""

    sample_rate: float | None = None
    """In Hz, for files that state none."""
    channels: Sequence[str] | Mapping[str, str] | None = None
    """Channels to read, or new names by the names in the file."""
    units: str | Sequence[str] | Mapping[str, str] | None = None
    """Of channels whose unit a file does not state; others are converted."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """New names of the channels that are operating conditions."""
    resample_to: float | None = None
    """In Hz."""
    array: str | None = None
    """Array, group or record to read, in files that hold several."""

    @classmethod
    def parse(
        cls,
        *,
        rate: float | None = None,
        channels: str | None = None,
        units: str | None = None,
        conditions: Sequence[str] = (),
        resample: float | None = None,
        array: str | None = None,
    ) -> ReadOptions:
        """Return the options from words of a command line, such as ``x,y`` and ``x=g,y=mm/s``.

        >>> found = ReadOptions.parse(channels="A=x,B=y", units="g")
        >>> found.channels, found.units
        ({'A': 'x', 'B': 'y'}, 'g')
        """
        if any(number is not None and not number > 0 for number in (rate, resample)):
            raise ConfigError(f"a sample rate of {rate if resample is None else resample:g} Hz; expected more than 0")
        found = None if units is None else _list_or_mapping(units)
        columns = [word.partition("=") for words in conditions for word in words.split(",")]
        return cls(
            rate,
            None if channels is None else _list_or_mapping(channels),
            found[0] if isinstance(found, tuple) and len(found) == 1 else found,
            {old.strip(): new.strip() or old.strip() for old, _, new in columns},
            resample,
            array,
        )

    def read(self, path: Path) -> Recording:
        """Read a file. A channel without a unit keeps its samples as they were recorded."""
        return self.read_file(open_signal(path, array=self.array))

    def read_file(self, file: SignalFile) -> Recording:
        """Read what a file holds, or a part of it."""
        units = self.units
        if units is None and file.recording is None:
            # The samples stay as they are, and the unit says that nobody knows it.
            units = dict.fromkeys(self.missing_units(file), UNKNOWN_UNIT) or None
        selection = RecordingSelection(self.sample_rate, self.channels, units, self.conditions)
        recording = selection.recording(file)
        return recording if self.resample_to is None else resample(recording, self.resample_to)

    def read_for(
        self,
        path: Path,
        *,
        sample_rate: float,
        channels: Sequence[str],
        units: Sequence[str],
        conditions: Mapping[str, str],
    ) -> Recording:
        """Read a file for a model that was trained at this rate, on these channels in these units.

        ``conditions`` has the units of the conditions that the model knows. What the file does not state is taken from
        the model. A file at another rate is refused, unless these options resample it.
        """
        header = open_signal(path, array=self.array)
        if header.recording is not None and self == ReadOptions():
            return header.recording()
        rate = self.sample_rate or header.sample_rate or sample_rate
        if rate != sample_rate and self.resample_to is None:
            raise DataError(
                f"{path}: {rate:g} Hz; the model was trained at {sample_rate:g} Hz; resample it with "
                f"--resample {sample_rate:g}"
            )
        traces = self.conditions or {name: name for name in conditions if name in header.channels}
        stated = self._stated_units(header)
        known = self.units or {
            **{
                name: unit for name, unit in conditions.items() if unit and stated.get(name) and name in traces.values()
            },
            **{
                name: unit
                for name, unit in zip(channels, units, strict=True)
                if unit != UNKNOWN_UNIT or stated.get(name) is None
            },
        }
        return read_recording(
            path,
            sample_rate=rate if header.sample_rate is None or self.sample_rate else None,
            channels=self.channels or list(channels),
            units=known or None,
            conditions=traces,
            array=self.array,
            resample_to=None if rate == sample_rate else sample_rate,
        )

    def missing_units(self, header: SignalFile) -> list[str]:
        """Return the channels that are read and of which the file states no unit."""
        stated = self._stated_units(header)
        names = header.channels if self.channels is None else self._new_names()
        return [name for name in names if stated.get(name) is None and name not in self.conditions]

    def _stated_units(self, header: SignalFile) -> dict[str, str | None]:
        """Return the units that a file states, by the new names of its channels."""
        renamed = self.channels if isinstance(self.channels, Mapping) else {}
        stated = {renamed.get(name, name): unit for name, unit in zip(header.channels, header.units, strict=True)}
        short = shared_names(header.channels, header.path.stem)
        return {**stated, **{renamed.get(new, new): stated[name] for name, new in short.items() if name in stated}}

    def _new_names(self) -> list[str]:
        return list(self.channels.values() if isinstance(self.channels, Mapping) else self.channels or ())


def _list_or_mapping(text: str) -> tuple[str, ...] | dict[str, str]:
    words = [word.strip() for word in text.split(",")]
    pairs = [word.partition("=") for word in words]
    if all(equals for _, equals, _ in pairs):
        return {old.strip(): new.strip() for old, _, new in pairs}
    if any(equals for _, equals, _ in pairs) or not all(words):
        raise ConfigError(f"{text!r}: expected names separated by commas, or old=new for each of them")
    return tuple(words)
