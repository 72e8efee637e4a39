"""Raw columns of table files, and their assembly into one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError

RawArray: TypeAlias = npt.NDArray[np.floating[Any]]
Column: TypeAlias = RawArray | pa.ChunkedArray
"""Raw samples as an array or as pyarrow reads them; the latter are copied once, directly into the recording."""


def column_chunks(column: Column) -> list[RawArray]:
    """Return the arrays that a column consists of; only a chunk with empty cells is copied."""
    if isinstance(column, np.ndarray):
        return [column]
    return [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]


def stack_columns(columns: Sequence[Column], factors: Sequence[float] | None = None) -> FloatArray:
    """Return the columns as rows of one array, each multiplied by its factor."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise DataError(f"columns of different lengths, {lengths}; expected one sample of each per row")
    signal = np.empty((len(columns), lengths[0] if lengths else 0), np.float32)
    for row, column, factor in zip(signal, columns, factors or [1.0] * len(columns), strict=True):
        start = 0
        for chunk in column_chunks(column):
            _scale(chunk, factor, out=row[start : start + chunk.size])
            start += chunk.size
    return signal


def single_precision(values: npt.NDArray[Any]) -> FloatArray:
    """Return numbers in single precision; those beyond it become infinite, which a recording refuses."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float32)


def _scale(raw: RawArray, factor: float, *, out: FloatArray) -> None:
    if factor == 1:
        out[:] = raw
        return
    # Multiplied in double precision and rounded once, which the CSV writer relies on.
    with np.errstate(over="ignore"):
        np.multiply(raw, factor, out=out, dtype=np.float64, casting="same_kind")
