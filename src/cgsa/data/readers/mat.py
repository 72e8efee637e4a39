"""Reader for MAT files of version 5 (MATLAB's format up to 2 GB per variable, and the default of Octave's ``-v6``)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cgsa.data.readers import Reader
from cgsa.data.readers.arrays import ArrayContent, ArrayShape, Sliceable
from cgsa.data.readers.damage import CURE, parsing, truncated
from cgsa.data.signal_file import SignalFile
from cgsa.errors import DataError

HEADER_BYTES = 128
MATRIX, COMPRESSED = 14, 15
"""The types of data elements that hold a variable."""
MAX_DEPTH = 8
"""Structures within structures."""


def open_mat(path: Path, array: str | None) -> SignalFile:
    """Return what a MAT file holds.

    The variables are read as a whole: the format limits them to 2 GB, and compressed ones can be read in one go only.
    """
    with parsing(path, "MAT"):
        _check_elements(path)
        found = _variables(path)
    arrays = {
        name: ArrayShape(value.shape, value.dtype) for name, value in found.items() if value.dtype.kind in "iufbc"
    }
    scalars = {
        name: float(value.reshape(-1)[0])
        for name, value in found.items()
        if value.size == 1 and value.dtype.kind in "iuf"
    }
    texts = {
        name: tuple(str(text).strip() for text in value.reshape(-1))
        for name, value in found.items()
        if value.dtype.kind == "U"
    }
    arrays = {name: entry for name, entry in arrays.items() if name not in scalars}

    @contextmanager
    def load(names: Sequence[str]) -> Iterator[Mapping[str, Sliceable]]:
        yield {name: found[name] for name in names}

    return ArrayContent(path, "mat", load, arrays, scalars, texts).signal_file(array)


def _check_elements(path: Path) -> None:
    """Check that every variable lies within the file, before memory is allocated for it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
        order = "<" if header[126:128] == b"IM" else ">"
        if len(header) < HEADER_BYTES or header[126:128] not in {b"IM", b"MI"}:
            raise DataError(f"{path}: its header of {HEADER_BYTES} bytes is damaged; {CURE}")
        place = HEADER_BYTES
        while place < size:
            tag = file.read(8)
            if len(tag) < 8:
                raise truncated(path, "the tag of a variable", place, place + 8, size)
            kind, count = struct.unpack(f"{order}II", tag)
            if kind not in {MATRIX, COMPRESSED}:
                raise DataError(f"{path}: byte {place} has data of type {kind}; expected a variable; {CURE}")
            end = place + 8 + count
            if end > size:
                raise truncated(path, "a variable", place, end, size)
            file.seek(end)
            place = end


def _variables(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    from scipy.io import loadmat  # noqa: PLC0415 -- slow to import

    content = loadmat(str(path), appendmat=False, simplify_cells=True, verify_compressed_data_integrity=True)
    found: dict[str, np.ndarray[Any, np.dtype[Any]]] = {}
    for name, value in content.items():
        if not name.startswith("__"):
            _walk(name, value, found, MAX_DEPTH)
    return found


def _walk(name: str, value: Any, found: dict[str, np.ndarray[Any, np.dtype[Any]]], depth: int) -> None:
    """Add the arrays in a variable; fields of structures and cells get dotted names."""
    if not depth:
        return
    if isinstance(value, dict):
        for key, part in value.items():
            _walk(f"{name}.{key}", part, found, depth - 1)
    elif isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype == object):
        parts = list(np.asarray(value, object).reshape(-1)) if isinstance(value, np.ndarray) else value
        if parts and all(isinstance(part, str) for part in parts):
            found[name] = np.array(parts, np.str_)
            return
        for place, part in enumerate(parts, start=1):
            _walk(f"{name}.{place}", part, found, depth - 1)
    elif isinstance(value, str):
        found[name] = np.array([value])
    elif isinstance(value, (np.ndarray, np.generic, int, float)) and np.asarray(value).dtype.kind in "iufbcU":
        found[name] = np.asarray(value)


READER = Reader(
    suffixes=(".mat",),
    accepts=lambda head: head[126:128] in {b"IM", b"MI"} and head[124:126] in {b"\x00\x01", b"\x01\x00"},
    open=open_mat,
)
