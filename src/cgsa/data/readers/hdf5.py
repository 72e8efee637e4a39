"""Reader for HDF5, and for MAT files of version 7.3, which are HDF5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from cgsa.data.readers import Reader
from cgsa.data.readers.arrays import ArrayContent, ArrayShape, Sliceable
from cgsa.data.readers.damage import CURE, parsing
from cgsa.data.readers.hdf5_heaps import check_heaps
from cgsa.data.signal_file import SignalFile
from cgsa.errors import DataError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
MAX_OBJECTS = 10_000
SMALL = 1024
"""Elements up to which a dataset is looked at for parameters."""
MAX_RATIO = 1100
"""Deflate, the strongest filter in use, packs at most so many bytes into one."""


def open_hdf5(path: Path, array: str | None) -> SignalFile:
    """Return what an HDF5 file holds; links to other files are not followed."""
    contents = _Contents(path)
    check_heaps(path)
    with parsing(path, "HDF5"), h5py.File(path, "r", locking=False) as file:
        contents.add("", file)
        file.visititems(contents.add)

    @contextmanager
    def load(names: Sequence[str]) -> Iterator[Mapping[str, Sliceable]]:
        with parsing(path, "HDF5"), h5py.File(path, "r", locking=False) as opened:
            found: dict[str, Sliceable] = {}
            for name in names:
                dataset, _, part = (name, "", "") if name in opened else name.rpartition(".")
                found[name] = opened[dataset].fields(part) if part else opened[dataset]
            yield found

    return ArrayContent(path, "hdf5", load, contents.arrays, contents.scalars, contents.texts).signal_file(array)


class _Contents:
    """Collects the datasets and attributes of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, ArrayShape] = {}
        self.scalars: dict[str, float] = {}
        self.texts: dict[str, tuple[str, ...]] = {}
        self._count = 0

    def add(self, name: str, thing: Any) -> None:
        """Add a dataset or group."""
        self._count += 1
        if self._count > MAX_OBJECTS:
            raise DataError(f"{self.path}: has more than {MAX_OBJECTS} objects; {CURE}")
        _attributes(f"{name}@", thing, self.scalars, self.texts)
        if not isinstance(thing, h5py.Dataset) or name.startswith("#"):
            return
        if _is_text(thing):
            self.texts |= {name: _texts(thing)} if 0 < (thing.size or 0) <= SMALL else {}
        elif thing.size == 1 and thing.dtype.kind in "iuf":
            self.scalars[name] = float(np.asarray(thing[()]).reshape(-1)[0])
        elif thing.shape:
            _check_size(self.path, name, thing)
            fields = thing.dtype.fields
            if fields is None:
                self.arrays[name] = ArrayShape(thing.shape, thing.dtype)
                return
            for part, (kind, *_) in fields.items():
                self.arrays[f"{name}.{part}"] = ArrayShape((*thing.shape, *kind.shape), kind.base)


def _attributes(prefix: str, thing: Any, scalars: dict[str, float], texts: dict[str, tuple[str, ...]]) -> None:
    for key in thing.attrs:
        if key.startswith(("MATLAB_", "H5")) or key in {"CLASS", "TITLE", "VERSION"}:
            continue
        value = np.asarray(thing.attrs[key])
        if value.dtype.kind in "iuf" and value.size == 1:
            scalars[prefix + key] = float(value.reshape(-1)[0])
        elif value.dtype.kind in "SUO" and 0 < value.size <= SMALL:
            texts[prefix + key] = tuple(_text(part) for part in value.reshape(-1))


def _is_text(dataset: Any) -> bool:
    strings = h5py.check_string_dtype(dataset.dtype) is not None or dataset.dtype == h5py.ref_dtype
    return strings or _is_char(dataset)


def _is_char(dataset: Any) -> bool:
    """Return whether a dataset holds MATLAB's characters."""
    return bool(dataset.attrs.get("MATLAB_class", b"") == b"char")


def _texts(dataset: Any) -> tuple[str, ...]:
    """Return the strings of a dataset: plain ones, MATLAB's characters, or its cells of characters."""
    value = np.asarray(dataset[()])
    if _is_char(dataset):
        # MATLAB stores a matrix of characters by columns.
        return tuple("".join(map(chr, row)).strip() for row in np.atleast_2d(value).T)
    if dataset.dtype == h5py.ref_dtype:
        parts = [dataset.file[reference] for reference in value.reshape(-1) if reference]
        return tuple(
            "".join(map(chr, np.asarray(part[()]).reshape(-1)))
            for part in parts
            if isinstance(part, h5py.Dataset) and part.dtype.kind == "u" and part.size <= SMALL
        ) or ("",)
    return tuple(_text(part) for part in value.reshape(-1))


def _text(value: object) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def _check_size(path: Path, name: str, dataset: Any) -> None:
    """Refuse a dataset that states more data than the file can hold, before memory is allocated for it."""
    stored, stated = dataset.id.get_storage_size(), dataset.size * dataset.dtype.itemsize
    if dataset.external is not None or dataset.is_virtual:
        raise DataError(f"{path}: dataset {name!r} refers to other files; export one file with the samples in it")
    if stored > path.stat().st_size or stated > MAX_RATIO * stored:
        raise DataError(
            f"{path}: dataset {name!r} of shape {dataset.shape} states {stated} bytes, but {stored} are stored in the "
            f"file; {CURE}"
        )


READER = Reader(
    suffixes=(".h5", ".hdf5", ".hdf", ".he5", ".mat"),
    # A MAT file of version 7.3 has a header of 512 bytes before the signature.
    accepts=lambda head: head.startswith(SIGNATURE) or head[512:520] == SIGNATURE,
    open=open_hdf5,
)
