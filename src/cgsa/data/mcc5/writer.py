"""Write recordings as CSV files of the MCC5-THU data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from cgsa.data.columns import stack_columns
from cgsa.data.mcc5.recordings import (
    CURRENTS,
    GEARBOX_COLUMNS,
    GEARBOX_VIBRATIONS,
    MOTOR_FACTOR,
    TORQUE_FACTOR,
    VIBRATIONS,
)
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.run import SAMPLE_RATE
from cgsa.errors import DataError
from cgsa.files import replacing


def write_csv(recording: Recording, path: str | Path, *, machine: str) -> None:
    """Write a recording as a file of its data set, atomically; reading it restores every bit.

    A gearbox file has a header and eight columns, that of any other machine no
    header and nine. Speed is not written: a reader derives it from the key phase.
    """
    path = Path(path)
    recording.require_finite()
    if recording.sample_rate != SAMPLE_RATE:
        raise DataError(f"{path}: sampled at {recording.sample_rate:g} Hz; a {machine} file has {SAMPLE_RATE} Hz")
    if "torque" not in recording.conditions:
        raise DataError(f"{path}: the recording has no torque condition, which a {machine} file needs")
    header = ""
    torque = _short_decimals(recording.conditions["torque"], TORQUE_FACTOR)
    if machine == "gearbox":
        key_phase, *vibrations = recording.select(("key_phase", *GEARBOX_VIBRATIONS)).signal
        columns = [key_phase, torque, *vibrations]
        header = ",".join(GEARBOX_COLUMNS) + "\n"
    else:
        key_phase, *signals = recording.select(("key_phase", *VIBRATIONS, *CURRENTS)).signal
        time = np.arange(recording.samples) / SAMPLE_RATE
        scaled = (_short_decimals(row, MOTOR_FACTOR) for row in signals)
        columns = [time, _short_decimals(key_phase, 1.0), torque, *scaled]
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    with replacing(path, DataError) as fresh, fresh.open("wb") as file:
        file.write(header.encode())
        csv.write_csv(table, file, csv.WriteOptions(include_header=False))


def _short_decimals(trace: FloatArray, factor: float) -> npt.NDArray[np.float64]:
    """Return the raw column that reads back as ``trace``, with as few decimals as possible."""
    column = trace.astype(np.float64) / factor
    for decimals in range(3, 9):
        short = np.round(column, decimals)
        if np.array_equal(stack_columns([short], [factor])[0], trace):
            return short
    return column
