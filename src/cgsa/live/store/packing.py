"""Numbers as few bytes, and whatever else is no plain value as text.

Windows take by far the most room of a store, so the numbers of a batch are
compressed column by column. They come back bit for bit.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.errors import DataError
from cgsa.ledger.columns import Column, Columns, LabelColumn

_KINDS: Mapping[str, type[np.generic]] = {"window": np.int64, "time": np.float64, "accepted": np.bool_}
"""Columns of a ledger that are neither words nor evidence."""


def pack_columns(columns: Columns) -> tuple[str, bytes]:
    """Return columns as the names and words of their layout, and their compressed numbers."""
    layout, parts = [], []
    for name, column in columns.items():
        words, numbers = (
            (column.labels, column.codes) if isinstance(column, LabelColumn) else (None, np.asarray(column))
        )
        layout.append((name, words))
        parts.append(_shuffled(numbers, _kind(name, words)))
    return to_text(layout), zlib.compress(b"".join(parts))


def unpack_columns(layout: str, data: bytes, windows: int) -> dict[str, Column]:
    """Return the columns that :func:`pack_columns` packed."""
    named: list[tuple[str, list[str] | None]] = json.loads(layout)
    kinds = [_kind(name, words) for name, words in named]
    raw = _inflated(data, windows * sum(kind.itemsize for kind in kinds))
    columns: dict[str, Column] = {}
    place = 0
    for (name, words), kind in zip(named, kinds, strict=True):
        size = windows * kind.itemsize
        numbers = _unshuffled(raw[place : place + size], kind)
        columns[name] = numbers if words is None else LabelColumn(numbers, tuple(words))
        place += size
    return columns


def pack_samples(samples: npt.NDArray[np.float32]) -> bytes:
    """Return a waveform, (channels, samples), as its compressed numbers."""
    return zlib.compress(_shuffled(samples.ravel(), np.dtype(np.float32)))


def unpack_samples(data: bytes, channels: int, samples: int) -> npt.NDArray[np.float32]:
    """Return the waveform that :func:`pack_samples` packed."""
    kind = np.dtype(np.float32)
    return _unshuffled(_inflated(data, channels * samples * kind.itemsize), kind).reshape(channels, samples)


def join_columns(batches: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """Return the columns of batches end to end."""
    names = dict.fromkeys(name for batch in batches for name in batch)
    return {name: _joined_column(name, batches) for name in names}


def to_text(value: object) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


def _kind(name: str, words: Sequence[str] | None) -> np.dtype[Any]:
    return np.dtype(_KINDS.get(name, np.float32) if words is None else np.int32)


def _shuffled(numbers: npt.NDArray[Any], kind: np.dtype[Any]) -> bytes:
    """Return all first bytes, then all second ones, and so on: exponents of neighbours are alike and pack well."""
    raw = np.frombuffer(np.ascontiguousarray(numbers, kind.newbyteorder("<")).tobytes(), np.uint8)
    return raw.reshape(-1, kind.itemsize).T.tobytes()


def _unshuffled(raw: bytes, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    turned = np.frombuffer(raw, np.uint8).reshape(kind.itemsize, -1).T.tobytes()
    return np.frombuffer(turned, kind.newbyteorder("<")).astype(kind)


def _inflated(data: bytes, size: int) -> bytes:
    """Return what was compressed; never more than should be there, whatever a damaged file says."""
    try:
        raw = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise DataError(f"a stored block cannot be unpacked ({error}); the store is damaged") from error
    if len(raw) != size:
        raise DataError(f"a stored block holds {len(raw)} bytes or more; expected {size}; the store is damaged")
    return raw


def _joined_column(name: str, batches: Sequence[Mapping[str, Column]]) -> Column:
    pieces = [batch[name] if name in batch else _missing(name, len(batch["time"])) for batch in batches]
    words = [piece for piece in pieces if isinstance(piece, LabelColumn)]
    if not words:
        return np.concatenate([np.asarray(piece) for piece in pieces])
    places: dict[str, int] = {}
    codes = [
        np.array([places.setdefault(word, len(places)) for word in piece.labels], np.int32)[piece.codes]
        for piece in words
    ]
    return LabelColumn(np.concatenate(codes), tuple(places))


def _missing(name: str, windows: int) -> npt.NDArray[Any]:
    """Return a column that says nothing: a method that never learns accepts no window."""
    return np.zeros(windows, np.bool_) if name == "accepted" else np.full(windows, np.nan, np.float32)
