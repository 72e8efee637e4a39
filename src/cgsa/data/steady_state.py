"""Sets of steady-state recordings: a ``meta.json`` and one ``.npz`` file per class, operating condition and specimen.

A file is named ``<class>__<run>.npz`` or ``<class>_<specimen>__<run>.npz``. Its
operating condition was set, not measured, and is stated in ``meta.json``.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import FloatArray, Recording
from cgsa.data.run import Severity
from cgsa.errors import DataError

META_FILE = "meta.json"
UNKNOWN_UNIT = "as recorded"
SPECIMEN_KEYS = ("unit", "run")
"""Entries that tell the specimens of a class apart; in these files, ``run`` is the number of a repetition."""


@dataclass(frozen=True)
class SteadyStateFile:
    """The entry of one recording in ``meta.json``."""

    path: Path
    state: str
    run: str
    """The condition as in the file name, such as ``1200rpm_11lb``."""
    conditions: Mapping[str, float]
    """The condition as numbers, such as ``{"speed_rpm": 1200}``."""
    specimen: int = 1
    """Place of the unit among those of its class, from 1; without units, the number of the repetition."""
    unit: str | None = None
    """Name of the assembly that was recorded, such as ``K001`` of a bearing."""


class SteadyStateLibrary:
    """Recordings of one kind of machine, each at one steady condition.

    Recordings are as measured, and state the mean of every channel. It is the
    offset of the sensor, or gravity, and depends on the mounting of the sensor.
    The mounting may differ from class to class, and a network would learn it
    instead of the fault, so networks get centred recordings.

    ``assumed_rate`` is the sample rate in Hz if the set states none. ``train_on`` has the numbers of the specimens
    that training may use; by default all of them.
    """

    def __init__(
        self, folder: str | Path, *, assumed_rate: float | None = None, train_on: Sequence[int] | None = None
    ) -> None:
        self.folder = Path(folder)
        meta = self.folder / META_FILE
        metadata = _read_meta(meta)
        stated = _stated_rate(metadata, meta)
        rate = assumed_rate if stated is None else stated
        if rate is None:
            raise DataError(f"{meta}: states no sample rate (fs); pass assumed_rate")
        self.sample_rate = rate
        assumed = f"{META_FILE} states no sample rate; {rate:g} Hz assumed"
        self.notes: tuple[str, ...] = (assumed,) if stated is None else ()
        self.channels = _channels(metadata, meta)
        self.units = (str(metadata.get("units", UNKNOWN_UNIT)),) * len(self.channels)
        self.files = _files(metadata, meta)
        known = sorted({file.specimen for file in self.files})
        unknown = [specimen for specimen in train_on or () if specimen not in known]
        if unknown:
            raise DataError(f"{self.folder}: no specimen {unknown[0]} to train on; it has {', '.join(map(str, known))}")
        self._specimens = train_on or known

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that training may use."""
        return self._specimens

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        """Return those of them that have a run of a class."""
        recorded = self._by_specimen(state, run)
        return [specimen for specimen in self._specimens if specimen in recorded]

    def get(self, state: str, run: str, *, severity: Severity, specimen: int) -> Recording:
        """Read one run; the class fixes its severity."""
        del severity
        recorded = self._by_specimen(state, run)
        if specimen not in recorded:
            known = [f"{number} ({file.unit})" if file.unit else f"{number}" for number, file in recorded.items()]
            raise DataError(f"{self.folder}: no specimen {specimen} of {state}, {run}; it has {', '.join(known)}")
        return self._read(recorded[specimen])

    def _by_specimen(self, state: str, run: str) -> Mapping[int, SteadyStateFile]:
        """Return the files of a run of a class by their specimens, in order; there is at least one."""
        of_class = [file for file in self.files if file.state == state]
        if not of_class:
            raise DataError(f"{self.folder}: no class {state!r}; it has {_listed(file.state for file in self.files)}")
        of_run = [file for file in of_class if file.run == run]
        if not of_run:
            raise DataError(
                f"{self.folder}: no run {run!r} of {state}; it has {_listed(file.run for file in of_class)}"
            )
        return {file.specimen: file for file in sorted(of_run, key=lambda file: file.specimen)}

    def _read(self, file: SteadyStateFile) -> Recording:
        signal = _signal(file.path, len(self.channels))
        recording = Recording(
            signal,
            self.sample_rate,
            self.channels,
            self.units,
            {name: np.full(signal.shape[1], value, np.float32) for name, value in file.conditions.items()},
            label=file.state,
            # The leak check compares sources, so that every path to a file must give the same name.
            source=str(file.path.resolve()),
            notes=self.notes,
        ).require_finite()
        return replace(recording, mean=signal.mean(axis=1, dtype=np.float64))


def _read_meta(path: Path) -> Mapping[str, object]:
    try:
        # Every number as float: an integer of a thousand digits becomes infinite and is refused as such.
        found = json.loads(path.read_text(encoding="utf-8"), parse_int=float)
    except FileNotFoundError as error:
        raise DataError(
            f"{path.parent}: no {META_FILE}; expected one next to files such as healthy__1200rpm_11lb.npz"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: is a {type(found).__name__}; expected an object with fs, channels and files")
    return found


def _stated_rate(metadata: Mapping[str, object], meta: Path) -> float | None:
    found = metadata.get("fs")
    if found is None:
        return None
    rate = _number(found)
    if rate is None or rate <= 0:
        raise DataError(f"{meta}: fs {found!r}; expected the sample rate in Hz, or null if unknown")
    return rate


def _channels(metadata: Mapping[str, object], meta: Path) -> tuple[str, ...]:
    found = metadata.get("channels")
    if isinstance(found, list) and found and all(isinstance(name, str) for name in found):
        names = tuple(found)
        if len(set(names)) == len(names):
            return names
    raise DataError(f"{meta}: channels {found!r}; expected a list of different names, one per column of x")


def _files(metadata: Mapping[str, object], meta: Path) -> tuple[SteadyStateFile, ...]:
    found = metadata.get("files")
    if not isinstance(found, list) or not found:
        raise DataError(f"{meta}: files {found!r}; expected a list with one entry per recording")
    files = _number_units([_file(entry, meta) for entry in found])
    for key in SPECIMEN_KEYS:
        without = [entry["file"] for entry in found if entry.get(key) is None]
        if 0 < len(without) < len(found):
            raise DataError(
                f"{meta}: {without[0]} has no {key}, others have one; expected it in all entries or in none"
            )
    _check_unique(files, meta)
    return files


def _number_units(files: Sequence[SteadyStateFile]) -> tuple[SteadyStateFile, ...]:
    """Number the units of each class from 1, in the order of their names."""
    places: dict[tuple[str, str | None], int] = {}
    for state in {file.state for file in files}:
        units = sorted({file.unit for file in files if file.state == state and file.unit is not None})
        places |= {(state, unit): place for place, unit in enumerate(units, start=1)}
    return tuple(replace(file, specimen=places.get((file.state, file.unit), file.specimen)) for file in files)


def _check_unique(files: Sequence[SteadyStateFile], meta: Path) -> None:
    """Require one file per class, run and specimen."""
    known: dict[tuple[str, str, int], SteadyStateFile] = {}
    for file in files:
        first = known.setdefault((file.state, file.run, file.specimen), file)
        if first is not file:
            raise DataError(
                f"{meta}: {first.path.name} and {file.path.name} are both specimen {file.specimen} of {file.state}, "
                f"{file.run}; expected different units, or different runs if there are no units"
            )


def _file(entry: object, meta: Path) -> SteadyStateFile:
    about = entry if isinstance(entry, dict) else {}
    # No slash: a name must not point outside the folder.
    name = re.fullmatch(r"(?P<begin>[^/\\]+?)__(?P<run>[^/\\]+)\.npz", str(about.get("file")))
    if name is None:
        raise DataError(f"{meta}: file {about.get('file', entry)!r}; expected a name such as healthy__1200rpm_11lb.npz")
    # Some sets abbreviate these two keys.
    state = about.get("class", about.get("cls"))
    # A unit or a repetition may follow the class.
    if not (isinstance(state, str) and state and f"{name['begin']}_".startswith(f"{state}_")):
        raise DataError(
            f"{meta}: {name[0]} has class {state!r}; expected {name['begin']!r}, as in its name, or a part before a '_'"
        )
    given = about.get("condition", about.get("cond"))
    conditions = {str(key): _number(value) for key, value in given.items()} if isinstance(given, dict) else {}
    known = {key: value for key, value in conditions.items() if value is not None}
    if not known or known.keys() != conditions.keys():
        raise DataError(f"{meta}: {name[0]} has condition {given!r}; expected numbers by name, such as speed_rpm")
    unit, number = _specimen(about, f"{meta}: {name[0]}")
    return SteadyStateFile(meta.parent / name[0], state, name["run"], known, number, unit)


def _specimen(about: Mapping[str, object], where: str) -> tuple[str | None, int]:
    """Return the unit of an entry, if it has one, and the number of the repetition, by default 1."""
    unit, run = (about.get(key) for key in SPECIMEN_KEYS)
    if unit is not None and (not isinstance(unit, str) or not unit):
        raise DataError(f"{where} has unit {unit!r}; expected a name such as K001")
    number = 1.0 if run is None else _number(run)
    if number is None or number < 1 or not number.is_integer():
        raise DataError(f"{where} has run {run!r}; expected the number of a repetition: 1, 2, ...")
    return unit, int(number)


def _signal(path: Path, channels: int) -> FloatArray:
    """Return the samples of a file in the unit of its set, (channels, samples)."""
    arrays = _load(path)
    if "x" not in arrays:
        raise DataError(f"{path}: no array x; it has {_listed(arrays)}")
    x, scale = arrays["x"], arrays.get("scale")
    if x.ndim != 2 or x.shape[0] == 0 or x.shape[1] != channels or x.dtype.kind not in "iuf":
        raise DataError(f"{path}: x is {x.dtype} {x.shape}; expected numbers, (samples, {channels})")
    if scale is None and x.dtype.kind != "f":
        raise DataError(f"{path}: x is {x.dtype} and there is no scale; expected the size of one step per channel")
    if scale is not None and (scale.shape != (channels,) or scale.dtype.kind != "f"):
        raise DataError(f"{path}: scale is {scale.dtype} {scale.shape}; expected floats, ({channels},)")
    # A value too large for float32 becomes infinite and is refused as such.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray((x if scale is None else x * scale).T, dtype=np.float32)


def _load(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise DataError(f"{path}: {META_FILE} lists it, but it does not exist; copy the set again")
    try:
        if not zipfile.is_zipfile(path):
            raise DataError(f"{path}: not an .npz file; copy the set again")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); copy the set again") from error


def _number(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    return value if isinstance(value, float) and math.isfinite(value) else None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names))) or "nothing"
