"""The MCC5-THU gearbox and motor data sets: names, units, layouts and quirks of their files.

Readers hand over the raw columns of a file and get a :class:`Recording` in
physical units; the simulated rigs hand over theirs, so both speak alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from cgsa.data.keyphase import shaft_speed
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.run import SAMPLE_RATE, Run, Severity
from cgsa.errors import DataError
from cgsa.files import replacing

Column: TypeAlias = npt.NDArray[np.floating[Any]] | pa.ChunkedArray
"""Raw samples, as an array or as pyarrow read them; the latter are copied once, straight to their place."""
MachineKind = Literal["gearbox", "motor"]

VIBRATIONS = ("vibration_x", "vibration_y", "vibration_z")
CURRENTS = ("current_a", "current_b", "current_c")
GEARBOX_VIBRATIONS = (*(f"motor_{axis}" for axis in VIBRATIONS), *(f"gearbox_{axis}" for axis in VIBRATIONS))
GEARBOX_COLUMNS = ("speed", "torque", *GEARBOX_VIBRATIONS)
"""Header of a gearbox file. What it calls ``speed`` is the key phase."""
MOTOR_COLUMNS = ("key_phase", "torque", *VIBRATIONS, *CURRENTS)
"""Columns of a motor file after its time, where it has one; x is horizontal, y axial, z vertical."""

HEALTHY = "health"
"""The state that has no severity."""
TORQUE_FACTOR = 6.0
"""Nm for one unit of a torque column."""
MOTOR_FACTOR = 0.1
"""g or A for one unit of a motor file's vibration and current columns."""


@dataclass(frozen=True)
class Mcc5FileName:
    """What the name of a file says about it."""

    state: str
    """State of the machine without its severity, such as ``gear_wear``; a compound fault is one state."""
    severity: Severity | None
    run: Run

    @classmethod
    def parse(cls, name: str) -> Mcc5FileName:
        """Read a file name of either data set.

        A motor's compound fault names its severity once a part; where all
        agree it is taken out of the state, otherwise the state keeps them.

        >>> MccName.parse("gear_wear_H_torque_circulation_1000rpm_10Nm.csv").state
        'gear_wear'
        >>> MccName.parse("bearing_outer_H_and_inner_H_speed_circulation_20Nm_3000rpm_230412101530d.csv").state
        'bearing_outer_and_inner'
        """
        match = re.fullmatch(
            r"(?P<state>[a-z]\w*?)_(speed|torque)_circulation_"
            r"(\d+Nm[-_]\d+rpm|\d+rpm[-_]\d+Nm)([-_]\d{12}[a-z]?)?(\.\w+)?",
            name,
        )
        if match is None:
            raise DataError(
                f"{name!r} is no MCC5-THU name; expected something like "
                f"'gear_wear_H_torque_circulation_1000rpm_10Nm.csv'"
            )
        state = match["state"].replace("teeth_break_single", "teeth_break")
        letters = set(re.findall(r"_([LMH])(?=_|$)", state))
        severity = cast(Severity, letters.pop()) if len(letters) == 1 else None
        if severity is not None:
            state = re.sub(rf"_{severity}(?=_|$)", "", state)
        return cls(state, severity, Run.parse(name))


def gearbox_recording(columns: Sequence[Column], *, name: str, source: str) -> Recording:
    """Return the recording that the eight columns of a gearbox file hold.

    Parameters
    ----------
    columns
        Raw columns in the order of :data:`GEARBOX_COLUMNS`.
    name
        File name; it tells the label.
    source
        Where the columns come from, for the leak check and for errors.
    """
    if len(columns) != len(GEARBOX_COLUMNS):
        raise DataError(
            f"{source}: {len(columns)} columns; a gearbox file has {len(GEARBOX_COLUMNS)}: {', '.join(GEARBOX_COLUMNS)}"
        )
    key_phase, torque, *vibrations = columns
    signal = _stack([key_phase, *vibrations], [1.0] * 7)
    label, _, notes = _named(name)
    return _recording(
        signal,
        ("key_phase", *GEARBOX_VIBRATIONS),
        ("V", *["g"] * 6),
        torque=_stack([torque], [TORQUE_FACTOR])[0],
        label=label,
        source=source,
        notes=notes,
    )


def motor_recording(columns: Sequence[Column], *, name: str, source: str) -> Recording:
    """Return the recording that the columns of a motor file hold, whichever of its layouts they stand in.

    A last column of NaN is dropped, a clock in the first column is checked and
    dropped, and what is left are the columns of :data:`MOTOR_COLUMNS`, with or
    without the torque (the early release has none).

    Parameters
    ----------
    columns
        Raw columns in file order.
    name
        File name; it tells the label and the level by which the unit of the torque is checked.
    source
        Where the columns come from, for the leak check and for errors.
    """
    label, run, notes = _named(name)
    rest = list(columns)
    if rest and np.isnan(np.asarray(rest[-1])).all():
        rest.pop()
        notes.append("last column holds only NaN; left out")
    if rest and is_clock(rest[0]):
        notes += check_clock(rest.pop(0), source)
    torque = None
    if len(rest) == len(MOTOR_COLUMNS):
        raw = rest.pop(1)
        factor, note = _torque_factor(raw, run)
        notes += note
        torque = _stack([raw], [factor])[0]
    elif len(rest) == len(MOTOR_COLUMNS) - 1:
        notes.append("no torque column (early release); there is no torque condition")
    else:
        raise DataError(
            f"{source}: {len(columns)} columns, {len(rest)} of them signals; a motor file has "
            f"time (or not) and then {', '.join(MOTOR_COLUMNS)}"
        )
    return _recording(
        _stack(rest, [1.0, *[MOTOR_FACTOR] * 6]),
        ("key_phase", *VIBRATIONS, *CURRENTS),
        ("V", *["g"] * 3, *["A"] * 3),
        torque=torque,
        label=label,
        source=source,
        notes=notes,
    )


def is_clock(column: Column) -> bool:
    """Tell whether a column counts time: it nearly always grows and hardly ever falls.

    It may stand still now and then (times printed with few digits) and may
    fall back to zero now and then (the saw-tooth timer).
    """
    steps = np.diff(np.asarray(column))
    return bool(np.mean(steps > 0) > 0.5 and np.mean(steps < 0) < 0.001)


def check_clock(clock: Column, source: str) -> list[str]:
    """Refuse a clock of another sampling rate; return a note where it starts over."""
    if not is_clock(clock):
        raise DataError(f"{source}: its time column does not count time; expected steps of 1/{SAMPLE_RATE} s")
    steps = np.diff(np.asarray(clock, np.float64))
    falls = np.flatnonzero(steps < 0)
    rate = 1 / steps[steps >= 0].mean()
    if abs(rate / SAMPLE_RATE - 1) > 0.01:
        raise DataError(f"{source}: time column steps at {rate:.6g} Hz; MCC5-THU files have {SAMPLE_RATE} Hz")
    if not falls.size:
        return []
    return [
        f"time column starts over {falls.size} times, first after {(falls[0] + 1) / rate:.2f} s; rows counted instead"
    ]


def _torque_factor(raw: Column, run: Run | None) -> tuple[float, list[str]]:
    """Return Nm for one unit of the column; some copies seem to be in Nm already."""
    if run is None:
        return TORQUE_FACTOR, []
    # The named level fills nearly half of every run and nothing lies above it.
    plateau = float(np.quantile(np.asarray(raw)[::64], 0.8))
    if 0.7 * run.torque < plateau < 1.4 * run.torque:
        return 1.0, [f"torque column reads {plateau:.3g} in a run of {run.torque} Nm; taken as Nm"]
    return TORQUE_FACTOR, []


def _named(name: str) -> tuple[str | None, Run | None, list[str]]:
    """Return label and run of a file name, or a note that it tells neither."""
    try:
        parsed = Mcc5FileName.parse(name)
    except DataError as error:
        return None, None, [f"{error}; no label"]
    return parsed.state, parsed.run, []


def _stack(columns: Sequence[Column], factors: Sequence[float]) -> FloatArray:
    """Return the columns in physical units as rows of one array."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise DataError(f"columns of different lengths, {lengths}; expected one sample each a row")
    signal = np.empty((len(columns), len(columns[0])), np.float32)
    for row, column, factor in zip(signal, columns, factors, strict=True):
        start = 0
        for piece in column_chunks(column):
            _scale(piece, factor, out=row[start : start + piece.size])
            start += piece.size
    return signal


def _scale(raw: npt.NDArray[np.floating[Any]], factor: float, *, out: FloatArray) -> None:
    if factor == 1:
        out[:] = raw
        return
    # Multiplied in double precision and rounded once, which is what write_csv counts on.
    with np.errstate(over="ignore"):
        np.multiply(raw, factor, out=out, dtype=np.float64, casting="same_kind")


def column_chunks(column: Column) -> list[npt.NDArray[np.floating[Any]]]:
    """Return a column as it lies in memory; only a chunk with empty cells in it is copied."""
    if isinstance(column, np.ndarray):
        return [column]
    return [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]


def _recording(
    signal: FloatArray,
    channels: tuple[str, ...],
    units: tuple[str, ...],
    *,
    torque: FloatArray | None,
    label: str | None,
    source: str,
    notes: list[str],
) -> Recording:
    speed = shaft_speed(signal[0], SAMPLE_RATE)
    if speed.missing or speed.doubled:
        notes.append(f"key phase: {speed.missing} missing pulses bridged, {speed.doubled} extra pulses left out")
    notes += _key_phase_quirks(speed.rpm, signal[1:])
    return Recording(
        signal,
        float(SAMPLE_RATE),
        channels,
        units,
        conditions={"speed": speed.rpm} if torque is None else {"torque": torque, "speed": speed.rpm},
        label=label,
        source=source,
        notes=tuple(notes),
    )


def _key_phase_quirks(rpm: FloatArray, rest: FloatArray) -> list[str]:
    """Return a note where the key phase is silent although the machine turns."""
    turning = np.flatnonzero(rpm)
    if not turning.size:
        return ["key phase has no pulses; speed is 0 throughout"]
    end = int(turning[-1]) + 1
    second = SAMPLE_RATE
    if rpm.size - end < second or rpm[end - 1] < 0.5 * np.median(rpm[turning]):
        return []
    before, after = (
        np.std(part, axis=1) for part in (rest[:, max(0, end - second) : end], rest[:, end : end + second])
    )
    if np.median(after / np.maximum(before, 1e-12)) < 0.3:
        return []
    return [f"key phase stops at {end / SAMPLE_RATE:.1f} s; speed is 0 from there on"]


@dataclass(frozen=True)
class RunFile:
    """One run on disk."""

    path: Path
    name: Mcc5FileName
    specimen: int = 1
    """Which assembly of the machine was recorded; a folder ``specimen_<K>`` says so."""


@dataclass(frozen=True)
class RunIndex:
    """The runs of one data set."""

    files: tuple[RunFile, ...]
    """Sorted by path, each run once."""
    skipped: tuple[Path, ...]
    """Files that are no runs: archive junk and other things."""
    notes: tuple[str, ...]
    """What was left out, in words."""


def find_runs(folder: str | Path) -> RunIndex:
    """Return the runs in a folder and its subfolders.

    Of a run that exists twice the first by path counts, so with time stamps in
    the names the earlier one.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is no folder; expected one with MCC5-THU files")
    found: dict[tuple[Mcc5FileName, int], RunFile] = {}
    skipped: list[Path] = []
    notes: list[str] = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        file = _run_file(path, root)
        if file is None:
            skipped.append(path)
            continue
        first = found.setdefault((file.name, file.specimen), file)
        if first is not file:
            notes.append(f"{path.relative_to(root)} is another recording of {first.path.relative_to(root)}; left out")
    if skipped:
        notes.append(f"{len(skipped)} files that are no runs skipped, such as {skipped[0].relative_to(root)}")
    return RunIndex(tuple(found.values()), tuple(skipped), tuple(notes))


def _run_file(path: Path, root: Path) -> RunFile | None:
    parts = path.relative_to(root).parts
    # Archives made on a Mac carry a resource fork beside each file, under the very same name but for "._".
    if "__MACOSX" in parts or path.name.startswith(".") or path.suffix.lower() not in {".csv", ".parquet"}:
        return None
    try:
        name = Mcc5FileName.parse(path.name)
    except DataError:
        return None
    # The folder asked for may itself be the specimen's.
    numbers = [int(match[1]) for part in path.absolute().parts if (match := re.fullmatch(r"specimen_(\d+)", part))]
    return RunFile(path, name, numbers[-1] if numbers else 1)


def write_csv(recording: Recording, path: str | Path, *, machine: MachineKind) -> None:
    """Write a recording as the file of its data set: what is read back is the same to the last bit.

    The gearbox's file has a header and eight columns, the motor's no header
    and nine. Speed is not written: a reader derives it from the key phase.
    The file is there whole or not at all.
    """
    path = Path(path)
    recording.require_finite()
    if recording.sample_rate != SAMPLE_RATE:
        raise DataError(f"{path}: sampled at {recording.sample_rate:g} Hz; a {machine} file has {SAMPLE_RATE} Hz")
    if "torque" not in recording.conditions:
        raise DataError(f"{path}: the recording has no torque condition, which a {machine} file needs")
    header = ""
    torque = _raw(recording.conditions["torque"], TORQUE_FACTOR)
    if machine == "gearbox":
        key_phase, *vibrations = recording.select(("key_phase", *GEARBOX_VIBRATIONS)).signal
        columns = [key_phase, torque, *vibrations]
        header = ",".join(GEARBOX_COLUMNS) + "\n"
    else:
        key_phase, *signals = recording.select(("key_phase", *VIBRATIONS, *CURRENTS)).signal
        time = np.arange(recording.samples) / SAMPLE_RATE
        columns = [time, _raw(key_phase, 1.0), torque, *(_raw(row, MOTOR_FACTOR) for row in signals)]
    table = pa.table(columns, names=[str(place) for place in range(len(columns))])
    with replacing(path, DataError) as fresh, fresh.open("wb") as file:
        file.write(header.encode())
        csv.write_csv(table, file, csv.WriteOptions(include_header=False))


def _raw(trace: FloatArray, factor: float) -> npt.NDArray[np.float64]:
    """Return the column that reads back as ``trace``, with as few decimals as that takes."""
    column = trace.astype(np.float64) / factor
    for decimals in range(3, 9):
        short = np.round(column, decimals)
        if np.array_equal(_stack([short], [factor])[0], trace):
            return short
    return column


def file_name(machine: MachineKind, state: str, severity: Severity | None, run: Run) -> str:
    """Return the name, without its ending, that the data set gives to a run.

    >>> file_name("motor", "bearing_ball", "H", Run("torque", 40, 2000))
    'bearing_ball_H_torque_circulation_40Nm_2000rpm'
    """
    torque, speed = f"{run.torque}Nm", f"{run.speed}rpm"
    if machine == "gearbox":
        level = f"{torque}-{speed}" if run.kind == "speed" else f"{speed}_{torque}"
    else:
        level = f"{torque}_{speed}"
    words = [state, None if state == HEALTHY else severity, run.kind, "circulation", level]
    return "_".join(word for word in words if word)
