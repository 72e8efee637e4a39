"""Compact encoding of columns and waveforms, and JSON for other values.

Windows take by far the most space of a store, so the numbers of a batch are compressed
column by column, without loss.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.errors import DataError
from cgsa.ledger.columns import STANDS_FOR, Column, Columns, LabelColumn, join_column

_DTYPES: Mapping[str, type[np.generic]] = {"window": np.int64, "time": np.float64, "accepted": np.bool_}
"""Data types of ledger columns that are neither labels nor evidence."""


def pack_columns(columns: Columns) -> tuple[str, bytes]:
    """Return the layout of columns, which are their names and labels, and their compressed numbers."""
    layout, parts = [], []
    for name, column in columns.items():
        labels, numbers = (
            (column.labels, column.codes) if isinstance(column, LabelColumn) else (None, np.asarray(column))
        )
        layout.append((name, labels))
        parts.append(_shuffled(numbers, _dtype(name, labels)))
    return to_text(layout), zlib.compress(b"".join(parts))


def unpack_columns(layout: str, data: bytes, windows: int) -> dict[str, Column]:
    """Return the columns that :func:`pack_columns` packed."""
    named: list[tuple[str, list[str] | None]] = json.loads(layout)
    dtypes = [_dtype(name, labels) for name, labels in named]
    raw = _decompressed(data, windows * sum(dtype.itemsize for dtype in dtypes))
    columns: dict[str, Column] = {}
    offset = 0
    for (name, labels), dtype in zip(named, dtypes, strict=True):
        size = windows * dtype.itemsize
        numbers = _unshuffled(raw[offset : offset + size], dtype)
        columns[name] = numbers if labels is None else LabelColumn(numbers, tuple(labels))
        offset += size
    return columns


def pack_samples(samples: npt.NDArray[np.float32]) -> bytes:
    """Return a waveform, (channels, samples), as its compressed numbers."""
    return zlib.compress(_shuffled(samples.ravel(), np.dtype(np.float32)))


def unpack_samples(data: bytes, channels: int, samples: int) -> npt.NDArray[np.float32]:
    """Return the waveform that :func:`pack_samples` packed."""
    dtype = np.dtype(np.float32)
    return _unshuffled(_decompressed(data, channels * samples * dtype.itemsize), dtype).reshape(channels, samples)


def join_columns(batches: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """Return the concatenated columns of batches."""
    names = dict.fromkeys(name for batch in batches for name in batch)
    return {
        name: join_column([batch[name] if name in batch else _missing(name, len(batch["time"])) for batch in batches])
        for name in names
    }


def to_text(value: object, default: Callable[[Any], object] | None = None) -> str:
    """Return a value as JSON without spaces; ``default`` returns what to write for a value that JSON does not have."""
    return json.dumps(value, separators=(",", ":"), default=default)


def _dtype(name: str, labels: Sequence[str] | None) -> np.dtype[Any]:
    return np.dtype(_DTYPES.get(name, np.float32) if labels is None else np.int32)


def _shuffled(numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> bytes:
    """Return all first bytes, then all second ones, and so on: adjacent exponents are alike and compress well."""
    raw = np.frombuffer(np.ascontiguousarray(numbers, dtype.newbyteorder("<")).tobytes(), np.uint8)
    return raw.reshape(-1, dtype.itemsize).T.tobytes()


def _unshuffled(raw: bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    numbers = np.frombuffer(raw, np.uint8).reshape(dtype.itemsize, -1).T.tobytes()
    return np.frombuffer(numbers, dtype.newbyteorder("<")).astype(dtype)


def _decompressed(data: bytes, size: int) -> bytes:
    """Return decompressed data; never more than ``size`` bytes, even if a damaged file expands to more."""
    try:
        raw = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise DataError(f"a stored block cannot be unpacked ({error}); the store is damaged") from error
    if len(raw) != size:
        raise DataError(f"a stored block holds {len(raw)} bytes or more; expected {size}; the store is damaged")
    return raw


def _missing(name: str, windows: int) -> npt.NDArray[Any]:
    """Return an empty column; a method that does not adapt accepts no window, and a whole window stands for itself."""
    if name == STANDS_FOR:
        return np.ones(windows, np.float32)
    return np.zeros(windows, np.bool_) if name == "accepted" else np.full(windows, np.nan, np.float32)
