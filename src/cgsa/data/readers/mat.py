"""Reader for MAT files of version 5 (MATLAB's format up to 2 GB per variable, and the default of Octave's ``-v6``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cgsa.data.readers import Reader
from cgsa.data.readers.arrays import ArrayContent, ArrayShape, Sliceable
from cgsa.data.readers.damage import parsing
from cgsa.data.readers.mat_elements import check_elements
from cgsa.data.signal_file import SignalFile

MAX_DEPTH = 8
"""Structures within structures."""


def open_mat(path: Path, array: str | None) -> SignalFile:
    """Return what a MAT file holds.

    The variables are read as a whole: the format limits them to 2 GB, and compressed ones can be read in one go only.
    """
    with parsing(path, "MAT"):
        check_elements(path)
        found, rasters = _variables(path)
    arrays = {
        name: ArrayShape(value.shape, value.dtype) for name, value in found.items() if value.dtype.kind in "iufbc"
    }
    single = {name: value.reshape(-1)[0] for name, value in found.items() if value.size == 1}
    # Some files hold their numbers as text.
    scalars = {
        name: float(value)
        for name, value in single.items()
        if not isinstance(value, np.str_) or re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value)
        if np.asarray(value).dtype.kind in "iufU"
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

    return ArrayContent(path, "mat", load, arrays, scalars, texts, rasters=rasters).signal_file(array)


def _variables(path: Path) -> tuple[dict[str, np.ndarray[Any, np.dtype[Any]]], dict[str, str]]:
    """Return all arrays by name, and the time raster of each that is a series."""
    from scipy.io import loadmat  # noqa: PLC0415 -- slow to import

    content = loadmat(str(path), appendmat=False, simplify_cells=True, verify_compressed_data_integrity=True)
    found: dict[str, np.ndarray[Any, np.dtype[Any]]] = {}
    rasters: dict[str, str] = {}
    for name, value in content.items():
        if not name.startswith("__"):
            _walk(name, value, found, rasters, MAX_DEPTH)
    return found, rasters


def _walk(
    name: str, value: Any, found: dict[str, np.ndarray[Any, np.dtype[Any]]], rasters: dict[str, str], depth: int
) -> None:
    """Add the arrays in a variable; fields of structures and cells get dotted names, and series their own."""
    if not depth:
        return
    if isinstance(value, dict):
        series = _series_name(value)
        if series is not None and _is_values(value["Data"]):
            name = f"{name}.{series}"
            found[name] = np.asarray(value["Data"])
            raster = value.get("Raster")
            rasters[name] = raster if isinstance(raster, str) else ""
            value = {key: part for key, part in value.items() if key not in {"Name", "Data"}}
        for key, part in value.items():
            _walk(f"{name}.{key}", part, found, rasters, depth - 1)
    elif isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype == object):
        parts = list(np.asarray(value, object).reshape(-1)) if isinstance(value, np.ndarray) else value
        if parts and all(isinstance(part, str) for part in parts):
            found[name] = np.array(parts, np.str_)
            return
        named = [_series_name(part) for part in parts]
        numbered = None in named or len(set(named)) < len(named)
        for place, part in enumerate(parts, start=1):
            _walk(f"{name}.{place}" if numbered else name, part, found, rasters, depth - 1)
    elif isinstance(value, str):
        found[name] = np.array([value])
    elif _is_values(value) or (isinstance(value, np.ndarray) and value.dtype.kind == "U"):
        found[name] = np.asarray(value)


def _series_name(part: Any) -> str | None:
    """Return the name of a series: a structure with the fields Name and Data."""
    if not isinstance(part, dict) or not {"Name", "Data"} <= part.keys() or not isinstance(part["Name"], str):
        return None
    # The parts of a path are separated by these.
    return re.sub(r"[/.@]", "_", part["Name"].strip()) or None


def _is_values(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, int, float)) and np.asarray(value).dtype.kind in "iufbc"


READER = Reader(
    suffixes=(".mat",),
    accepts=lambda head: head[126:128] in {b"IM", b"MI"} and head[124:126] in {b"\x00\x01", b"\x01\x00"},
    open=open_mat,
)
