"""Reader for Universal File Format data sets of type 58 and 58b: functions of time, as text and binary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cgsa.data.columns import single_precision
from cgsa.data.readers import Reader
from cgsa.data.readers.clock import shortest_rate
from cgsa.data.readers.damage import CURE, parsing, truncated
from cgsa.data.readers.groups import SignalGroup, choose_group
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import SignalFile
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError

HEADER_LINES = 11
MAX_LINE = 1 << 12
STEP_PRECISION = 5e-6
"""The format writes the sample interval with six digits."""
TIME_RESPONSE = (0, 1)
"""Function types: general, and time response. The others are spectra and the like."""
DIRECTIONS = {1: "+X", -1: "-X", 2: "+Y", -2: "-Y", 3: "+Z", -3: "-Z", 4: "+RX", -4: "-RX", 5: "+RY", -5: "-RY"}
TEXT_FORMATS = {2: (13, 6), 4: (20, 4)}
"""Characters per number and numbers per line, by the type of the ordinate: single and double precision."""


@dataclass(frozen=True)
class _Function:
    """One data set of type 58: a channel."""

    name: str
    unit: str | None
    step: float
    samples: int
    begin: int
    """First byte of its values."""
    dtype: np.dtype[Any] | None
    """Of binary values; None for text."""
    kind: int
    """Type of the ordinate: 2 for single precision, 4 for double."""

    def blocks(self, path: Path, samples: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the values, at most ``samples`` at a time."""
        with path.open("rb") as file:
            file.seek(self.begin)
            if self.dtype is not None:
                for start in range(0, self.samples, samples):
                    count = min(samples, self.samples - start) * self.dtype.itemsize
                    yield np.frombuffer(file.read(count), self.dtype)
                return
            width, per_line = TEXT_FORMATS[self.kind]
            held = np.empty(0)
            left = self.samples
            while left > 0 or held.size:
                lines = min(-(-samples // per_line), -(-left // per_line))
                parts = [_numbers(path, file, width, min(per_line, left - place * per_line)) for place in range(lines)]
                held = np.concatenate([held, *parts])
                left -= lines * per_line
                while held.size >= samples or (left <= 0 and held.size):
                    yield held[:samples]
                    held = held[samples:]


def open_uff58(path: Path, array: str | None) -> SignalFile:
    """Return what a file of type 58 holds; functions of the same length and rate are the channels of one recording."""
    with parsing(path, "UFF58"):
        functions, notes = _functions(path)
    by_shape: defaultdict[tuple[int, float], list[_Function]] = defaultdict(list)
    for function in functions:
        by_shape[function.samples, function.step].append(function)
    groups = [
        SignalGroup(
            f"group {place}",
            tuple(str(functions.index(member)) for member in members),
            _unique([member.name for member in members]),
            tuple(member.unit for member in members),
            shortest_rate(1 / step, tolerance=STEP_PRECISION),
            samples,
        )
        for place, ((samples, step), members) in enumerate(by_shape.items(), start=1)
    ]
    group, several = choose_group(path, groups, array)
    members = [functions[int(key)] for key in group.keys]

    def blocks(samples: int) -> Iterator[FloatArray]:
        with parsing(path, "UFF58"):
            for parts in zip(*(member.blocks(path, samples) for member in members), strict=True):
                yield np.stack([single_precision(part) for part in parts])

    return group.signal_file(path, "uff58", blocks, several=several, notes=notes)


def _functions(path: Path) -> tuple[list[_Function], list[str]]:
    """Return the functions of time in a file, and notes on what else is in it."""
    functions: list[_Function] = []
    notes: list[str] = []
    with path.open("rb") as file:
        while line := _line(path, file):
            if not line.strip():
                continue
            if line.strip() != "-1":
                raise DataError(f"{path}: byte {file.tell() - len(line)} should begin a data set with -1; {CURE}")
            head = _line(path, file)
            if head[:6].strip() == "58":
                function = _function(path, file, head)
                if isinstance(function, str):
                    notes.append(function)
                else:
                    functions.append(function)
                place = file.tell()
                if _line(path, file).strip() != "-1":
                    raise DataError(f"{path}: a data set should end with -1 at byte {place}; {CURE}")
                continue
            notes.append(f"data set of type {head.strip()[:8]} is not used")
            while (line := _line(path, file)).strip() != "-1":
                if not line:
                    raise DataError(f"{path}: truncated within a data set of type {head.strip()[:8]}; {CURE}")
    if not functions:
        raise DataError(f"{path}: holds no function of time (data set 58){'; ' if notes else ''}{'; '.join(notes[:5])}")
    return functions, notes


def _function(path: Path, file: BinaryIO, head: str) -> _Function | str:
    """Return the function whose header begins; a note instead of one that is no signal."""
    begin = file.tell()
    lines = [_line(path, file) for _ in range(HEADER_LINES)]
    if not all(lines):
        raise DataError(f"{path}: truncated within the header of a data set at byte {begin}; {CURE}")
    fields = lines[5].split()
    kind, samples, even = (int(lines[6][place : place + 10]) for place in (0, 10, 20))
    step = float(lines[6][43:56])
    if samples < 0 or kind not in {2, 4, 5, 6} or even not in {0, 1}:
        raise DataError(f"{path}: line 7 of the header at byte {begin} is damaged: {lines[6].strip()!r}; {CURE}")
    name, place = _name(lines), file.tell()
    is_signal = bool(even) and kind in TEXT_FORMATS
    dtype: np.dtype[Any] | None = None
    if head[6:7].lower() == "b":
        dtype = _skip_binary(path, file, head, kind, samples if even else None)
    elif is_signal:
        _check_text(path, file, kind, samples)
    else:
        _skip_text(path, file)
    if not is_signal:
        return f"function {name!r} has {'complex values' if even else 'uneven steps'} and is not used"
    if not fields or int(fields[0]) not in TIME_RESPONSE:
        return f"function {name!r} is of type {fields[0] if fields else '?'}, no signal of time, and is not used"
    if not 0 < step < float("inf"):
        raise DataError(f"{path}: function {name!r} states a step of {step:g} s; expected a positive one; {CURE}")
    unit = lines[8][47:67].strip()
    known = normalise_unit(unit) if unit and unit.upper() != "NONE" else None
    return _Function(name, known, step, samples, place, dtype, kind)


def _skip_binary(path: Path, file: BinaryIO, head: str, kind: int, samples: int | None) -> np.dtype[Any]:
    """Go to the end of binary values, and return their type; ``samples`` is None if their steps are uneven."""
    place, size = file.tell(), path.stat().st_size
    order = {"1": "<", "2": ">"}.get(head[7:13].strip())
    stated = int(head[31:43])
    dtype = np.dtype(f"{order or '<'}f{4 if kind in {2, 5} else 8}")
    expected = None if samples is None else samples * dtype.itemsize * (2 if kind in {5, 6} else 1)
    if order is None or stated < 0 or expected not in {None, stated}:
        raise DataError(f"{path}: the values at byte {place} state {stated} bytes for {samples} samples; {CURE}")
    if place + stated > size:
        raise truncated(path, "the values", place, place + stated, size)
    file.seek(place + stated)
    if file.read(1) not in {b"\r", b"\n"}:
        file.seek(place + stated)
    return dtype


def _check_text(path: Path, file: BinaryIO, kind: int, samples: int) -> None:
    """Go to the end of the values of a text, and check each line."""
    width, per_line = TEXT_FORMATS[kind]
    place, size = file.tell(), path.stat().st_size
    if samples * width > size:
        raise truncated(path, "the values", place, place + samples * width, size)
    for begin in range(0, samples, per_line):
        _numbers(path, file, width, min(per_line, samples - begin))


def _skip_text(path: Path, file: BinaryIO) -> None:
    """Go to the line that ends a data set."""
    while True:
        place = file.tell()
        line = _line(path, file)
        if line.strip() == "-1" or not line:
            file.seek(place)
            return


def _numbers(path: Path, file: BinaryIO, width: int, count: int) -> npt.NDArray[np.float64]:
    """Return the numbers of a line, each of a fixed width."""
    begin = file.tell()
    raw = file.readline(MAX_LINE).rstrip()
    try:
        cells = np.frombuffer(raw.ljust(count * width), f"S{width}")
        # A NUL would end a number early; a short line would give an empty one.
        values = cells.astype(np.float64) if len(raw) <= count * width and b"\0" not in raw else None
    except ValueError:
        values = None
    if values is None:
        raise DataError(f"{path}: the line at byte {begin} should have {count} numbers of {width} characters; {CURE}")
    return values


def _name(lines: list[str]) -> str:
    """Return the first line of the header, or node and direction of the sensor if it says nothing."""
    text = lines[0].strip()
    if text and text.upper() != "NONE":
        return text
    found = re.search(r"(-?\d+)\s+(-?\d+)\s+\S+\s+-?\d+\s+-?\d+\s*$", lines[5])
    return f"{found[1]}{DIRECTIONS.get(int(found[2]), '')}" if found else "function"


def _unique(names: list[str]) -> tuple[str, ...]:
    repeated = {name for name in names if names.count(name) > 1}
    return tuple(f"{name} ({place})" if name in repeated else name for place, name in enumerate(names, start=1))


def _line(path: Path, file: BinaryIO) -> str:
    raw = file.readline(MAX_LINE)
    if len(raw) == MAX_LINE:
        raise DataError(f"{path}: the line before byte {file.tell()} is longer than {MAX_LINE} characters; {CURE}")
    return raw.decode("latin-1")


def is_uff58(head: bytes) -> bool:
    """Return whether the first bytes of a file begin a data set of the Universal File Format."""
    return re.match(rb"\s*-1[ \t]*\r?\n\s*\d+[bB]?\s", head) is not None


READER = Reader(suffixes=(".uff", ".unv", ".uf", ".58", ".bunv"), accepts=is_uff58, open=open_uff58)
