"""From the raw columns of MCC5-THU files to recordings in physical units.

The readers and the simulated rigs pass raw columns to this module, so that real
and simulated recordings are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cgsa.data.columns import Column, stack_columns
from cgsa.data.keyphase import shaft_speed
from cgsa.data.mcc5.files import Mcc5FileName
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.run import SAMPLE_RATE, Run
from cgsa.errors import DataError

VIBRATIONS = ("vibration_x", "vibration_y", "vibration_z")
CURRENTS = ("current_a", "current_b", "current_c")
GEARBOX_VIBRATIONS = (*(f"motor_{axis}" for axis in VIBRATIONS), *(f"gearbox_{axis}" for axis in VIBRATIONS))
GEARBOX_COLUMNS = ("speed", "torque", *GEARBOX_VIBRATIONS)
"""Header of a gearbox file; its column ``speed`` holds the key phase."""
MOTOR_COLUMNS = ("key_phase", "torque", *VIBRATIONS, *CURRENTS)
"""Columns of a motor file after its time column, if it has one; x is horizontal, y axial, z vertical."""
GEARBOX_CHANNELS = ("key_phase", *GEARBOX_VIBRATIONS)
MOTOR_CHANNELS = ("key_phase", *VIBRATIONS, *CURRENTS)
TORQUE_FACTOR = 6.0
"""Nm per unit of a torque column."""
MOTOR_FACTOR = 0.1
"""g or A per unit of a motor file's vibration and current columns."""


def gearbox_recording(columns: Sequence[Column], *, name: str, source: str) -> Recording:
    """Return the recording in the eight columns of a gearbox file.

    The raw columns have the order of :data:`GEARBOX_COLUMNS`. The file name gives the label, and ``source`` is the
    origin of the columns, for the leak check and error messages.
    """
    if len(columns) != len(GEARBOX_COLUMNS):
        raise DataError(
            f"{source}: {len(columns)} columns; a gearbox file has {len(GEARBOX_COLUMNS)}: {', '.join(GEARBOX_COLUMNS)}"
        )
    key_phase, torque, *vibrations = columns
    label, run, notes = _parse_name(name)
    factor, note = _torque_factor(torque, run)
    notes += note
    signal, scaled = stack_columns([key_phase, *vibrations]), stack_columns([torque], [factor])[0]
    units = ("V", *["g"] * 6)
    return _recording(signal, GEARBOX_CHANNELS, units, torque=scaled, label=label, source=source, notes=notes)


def motor_recording(columns: Sequence[Column], *, name: str, source: str) -> Recording:
    """Return the recording in the columns of a motor file of any layout.

    A last column of NaN is dropped, and a time column at the start is checked and
    dropped. The other columns are :data:`MOTOR_COLUMNS`, with or without the
    torque (the early release has none).

    The file name gives the label, and the torque level that reveals the unit of the torque column; ``source`` is the
    origin of the columns, for the leak check and error messages.
    """
    label, run, notes = _parse_name(name)
    signals = list(columns)
    if signals and np.isnan(np.asarray(signals[-1])).all():
        signals.pop()
        notes.append("last column holds only NaN; dropped")
    if signals and is_time_column(signals[0]):
        notes += check_time_column(signals.pop(0), source)
    torque = None
    if len(signals) == len(MOTOR_COLUMNS):
        raw = signals.pop(1)
        factor, note = _torque_factor(raw, run)
        notes += note
        torque = stack_columns([raw], [factor])[0]
    elif len(signals) == len(MOTOR_COLUMNS) - 1:
        notes.append("no torque column (early release); the recording has no torque condition")
    else:
        raise DataError(
            f"{source}: {len(columns)} columns, {len(signals)} of them signals; a motor file has "
            f"an optional time column and then {', '.join(MOTOR_COLUMNS)}"
        )
    signal = stack_columns(signals, [1.0, *[MOTOR_FACTOR] * 6])
    units = ("V", *["g"] * 3, *["A"] * 3)
    return _recording(signal, MOTOR_CHANNELS, units, torque=torque, label=label, source=source, notes=notes)


def is_time_column(column: Column) -> bool:
    """Return whether a column is a clock: it nearly always rises and hardly ever falls.

    It may stay constant at times (printed with few digits) and may fall back to
    zero at times (a saw-tooth timer).
    """
    steps = np.diff(np.asarray(column))
    return bool(np.mean(steps > 0) > 0.5 and np.mean(steps < 0) < 0.001)


def check_time_column(column: Column, source: str) -> list[str]:
    """Refuse a clock of another sample rate; return a note if it falls back to zero."""
    if not is_time_column(column):
        raise DataError(f"{source}: its time column is not a clock; expected steps of 1/{SAMPLE_RATE} s")
    steps = np.diff(np.asarray(column, np.float64))
    falls = np.flatnonzero(steps < 0)
    rate = 1 / steps[steps >= 0].mean()
    if abs(rate / SAMPLE_RATE - 1) > 0.01:
        raise DataError(
            f"{source}: time column steps at {rate:.6g} Hz; MCC5-THU files have {SAMPLE_RATE} Hz: download it again"
        )
    if not falls.size:
        return []
    return [
        f"time column falls back {falls.size} times, first after {(falls[0] + 1) / rate:.2f} s; time follows from rows"
    ]


def _torque_factor(raw: Column, run: Run | None) -> tuple[float, list[str]]:
    """Return Nm per unit of the column, with a note; some copies seem to be in Nm already."""
    if run is None:
        return TORQUE_FACTOR, []
    # The nominal level fills nearly half of every run and is its maximum.
    plateau = float(np.quantile(np.asarray(raw)[::64], 0.8))
    if 0.7 * run.torque < plateau < 1.4 * run.torque:
        return 1.0, [f"torque column reads {plateau:.3g} in a run of {run.torque} Nm; assumed to be Nm"]
    return TORQUE_FACTOR, []


def _parse_name(name: str) -> tuple[str | None, Run | None, list[str]]:
    """Return label and run of a file name, or a note that it gives neither."""
    try:
        parsed = Mcc5FileName.parse(name)
    except DataError as error:
        return None, None, [f"{error}; no label"]
    return parsed.state, parsed.run, []


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
    if speed.missing or speed.extra:
        notes.append(f"key phase: {speed.missing} missing pulses bridged, {speed.extra} extra pulses ignored")
    notes += _key_phase_notes(speed.rpm, signal[1:])
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


def _key_phase_notes(rpm: FloatArray, others: FloatArray) -> list[str]:
    """Return a note if the key phase has no pulses although the machine turns."""
    turning = np.flatnonzero(rpm)
    if not turning.size:
        return ["key phase has no pulses; speed is 0 throughout"]
    end = int(turning[-1]) + 1
    second = SAMPLE_RATE
    if rpm.size - end < second or rpm[end - 1] < 0.5 * np.median(rpm[turning]):
        return []
    before, after = (
        np.std(part, axis=1) for part in (others[:, max(0, end - second) : end], others[:, end : end + second])
    )
    if np.median(after / np.maximum(before, 1e-12)) < 0.3:
        return []
    return [f"key phase stops at {end / SAMPLE_RATE:.1f} s; speed is 0 from there on"]
