"""The data set of one's own machine: a folder with a ``machine.toml`` and one Parquet file per recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from cgsa.data.dataset_file import MACHINE_FILE, MachineFile, RecordingEntry, is_data_set
from cgsa.data.dataset_selection import NO_CONDITION, SelectedRecording, scenario_of, select_recordings
from cgsa.data.readers import read_recording
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.run import Severity
from cgsa.data.scenario import Scenario
from cgsa.errors import DataError
from cgsa.files import replacing

CACHED_READS = 8
"""A stream may read the same healthy recording before every fault."""
_read_cached = lru_cache(maxsize=CACHED_READS)(read_recording)


@dataclass(frozen=True)
class DataSet:
    """Labelled recordings of one kind of machine; it is the library of its own scenario.

    Recordings are as measured, and state the mean of every channel, as those of a set of steady-state recordings do.
    """

    folder: Path
    about: MachineFile
    train_on: tuple[int, ...] | None = None
    """Specimens that training may use; None for all of them."""

    @classmethod
    def load(cls, folder: str | Path) -> DataSet:
        """Read a folder with a ``machine.toml``; its Parquet files are opened when they are needed."""
        place = Path(folder)
        if not is_data_set(place):
            what = "no such folder" if not place.is_dir() else f"no {MACHINE_FILE} in it"
            raise DataError(f"{place}: {what}; expected a data set, as `cgsa import` writes it")
        found = cls(place, MachineFile.read(place / MACHINE_FILE))
        missing = [entry.file for entry in found.about.recordings if not (place / entry.file).is_file()]
        if missing:
            raise DataError(
                f"{place / MACHINE_FILE}: {len(missing)} files that it lists do not exist, such as {missing[0]}; "
                f"copy them, or remove their entries"
            )
        return found

    def save(self) -> Path:
        """Write ``machine.toml`` atomically, and return its path; recordings stay as they are."""
        path = self.folder / MACHINE_FILE
        with replacing(path, DataError) as fresh:
            fresh.write_text(self.about.to_toml(), encoding="utf-8")
        return path

    @cached_property
    def selected(self) -> tuple[SelectedRecording, ...]:
        """Every recording with its operating condition and specimen."""
        return select_recordings(self.about)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the entries leave out of the training."""
        recorded = {one.entry.label for one in self.selected if self._may_train(one)}
        missing = [label for label in self.about.classes if label not in recorded]
        return (f"no recording to train on of {', '.join(missing)}; left out",) if missing else ()

    @property
    def only_condition(self) -> str | None:
        """The operating condition of all recordings for training, if there is but one; None if there are several."""
        used = [one for one in self.selected if self._may_train(one)]
        points = {one.point for one in used}
        return points.pop() if len(points) == 1 and not any(one.entry.ranges for one in used) else None

    def scenario(self) -> Scenario:
        """Return the scenario that trains on all of every recording, except for those that are for tests."""
        return scenario_of(self.about, [one for one in self.selected if self._may_train(one)])

    def for_testing(self, chosen: Iterable[SelectedRecording]) -> DataSet:
        """Return the data set with some more of its recordings kept out of training."""
        files = {one.entry.file for one in chosen}
        entries = [replace(one, split="test") if one.file in files else one for one in self.about.recordings]
        return replace(self, about=replace(self.about, recordings=tuple(entries)))

    def restricted_to(self, specimens: Sequence[int] | None) -> DataSet:
        """Return the data set with some of its specimens for training; None means all."""
        known = sorted({one.specimen for one in self.selected})
        unknown = [specimen for specimen in specimens or () if specimen not in known]
        if unknown:
            raise DataError(f"{self.folder}: no specimen {unknown[0]} to train on; it has {', '.join(map(str, known))}")
        return replace(self, train_on=None if specimens is None else tuple(specimens))

    def recordings(self) -> Iterator[Recording]:
        """Read one labelled recording after the other."""
        yield from map(self.read, self.about.recordings)

    def healthy_recordings(self) -> Iterator[Recording]:
        """Read one recording of the healthy machine after the other."""
        yield from (self.read(one) for one in self.about.recordings if one.label == self.about.classes[0])

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that training may use."""
        return sorted({one.specimen for one in self.selected if self._may_train(one)})

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        """Return those of them that have a run of a class that training may use."""
        return sorted(
            one.specimen
            for one in self.selected
            if one.run == run and one.entry.label == state and self._may_train(one)
        )

    def get(self, state: str, run: str, *, severity: Severity, specimen: int) -> Recording:
        """Read one run; the class fixes its severity."""
        del severity
        same = [one for one in self.selected if one.entry.label == state and one.run == run]
        for one in same:
            if one.specimen == specimen:
                return self.read(one.entry)
        known = ", ".join(str(one.specimen) for one in same) or "none"
        raise DataError(f"{self.folder}: no specimen {specimen} of {state}, {run}; it has {known}")

    def read(self, entry: RecordingEntry) -> Recording:
        """Read a recording of this data set, with its class and conditions."""
        path = self.folder / entry.file
        found = _read_cached(path)
        if found.sample_rate != self.about.sample_rate:
            raise DataError(
                f"{path}: {found.sample_rate:g} Hz; {MACHINE_FILE} states {self.about.sample_rate:g} Hz for all "
                f"recordings; import it again with --resample"
            )
        chosen = found.select([channel.name for channel in self.about.channels])
        for channel, unit in zip(self.about.channels, chosen.units, strict=True):
            if channel.unit != unit:
                raise DataError(f"{path}: channel {channel.name} is in {unit}; {MACHINE_FILE} states {channel.unit}")
        mean = chosen.signal.mean(axis=1, dtype=np.float64)
        return replace(chosen, conditions=self._conditions(entry, chosen, path), label=entry.label, mean=mean)

    def _conditions(self, entry: RecordingEntry, recording: Recording, path: Path) -> dict[str, FloatArray]:
        levels = entry.levels
        traces: dict[str, FloatArray] = {}
        for known in self.about.conditions:
            if known.name in levels:
                traces[known.name] = np.full(recording.samples, levels[known.name], np.float32)
            elif known.name in recording.conditions:
                traces[known.name] = recording.conditions[known.name]
            else:
                has = ", ".join(recording.conditions) or "none"
                raise DataError(f"{path}: no trace of the measured condition {known.name!r}; it has {has}")
        return traces or {NO_CONDITION.name: np.zeros(recording.samples, np.float32)}

    def _may_train(self, one: SelectedRecording) -> bool:
        return one.trained and (self.train_on is None or one.specimen in self.train_on)
