"""Reader for NumPy's files, NPY and NPZ; nothing is unpickled."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from cgsa.data.readers import Reader
from cgsa.data.readers.arrays import ArrayContent, ArrayShape, Sliceable
from cgsa.data.readers.damage import CURE, parsing, truncated
from cgsa.data.signal_file import SignalFile
from cgsa.errors import DataError

IN_MEMORY = 1 << 26
"""Bytes up to which an array of an NPZ file is unpacked into memory; larger ones into a temporary file."""
CHUNK_BYTES = 1 << 20
SMALL = 4096
"""Bytes up to which an array is looked at for parameters, such as the sample rate."""
Header = tuple[ArrayShape, bool, int]
"""Shape and type, whether columns are contiguous, and the bytes of the header."""


def open_npy(path: Path, array: str | None) -> SignalFile:
    """Return what an NPY file holds."""
    if array is not None:
        raise DataError(f"{path}: an NPY file holds a single array; leave out array={array!r}")
    with parsing(path, "NPY"):
        with path.open("rb") as file:
            entry, columns, begin = _header(path, "the array", file)
        size = path.stat().st_size
        if begin + _nbytes(entry) > size:
            raise truncated(path, f"{entry}", begin, begin + _nbytes(entry), size)
        if begin + _nbytes(entry) < size:
            raise DataError(f"{path}: {size - begin - _nbytes(entry)} bytes follow the array of {entry}; {CURE}")
    name = path.stem

    @contextmanager
    def load(_: Sequence[str]) -> Iterator[Mapping[str, Sliceable]]:
        with parsing(path, "NPY"):
            mapped = np.memmap(path, entry.dtype, "r", begin, entry.shape, order="F" if columns else "C")
            yield _fields(name, mapped)

    arrays = _field_shapes(name, entry)
    return ArrayContent(path, "npy", load, arrays, named=entry.dtype.fields is not None).signal_file(None)


def open_npz(path: Path, array: str | None) -> SignalFile:
    """Return what an NPZ file holds."""
    arrays: dict[str, ArrayShape] = {}
    scalars: dict[str, float] = {}
    texts: dict[str, tuple[str, ...]] = {}
    notes: list[str] = []
    with parsing(path, "NPZ"), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.filename == name:
                notes.append(f"{name} is no array and not used")
                continue
            with archive.open(member) as file:
                entry, _, begin = _header(path, name, file)
                if entry.dtype.hasobject:
                    notes.append(f"{name} has Python objects, which are never loaded")
                    continue
                if begin + _nbytes(entry) != member.file_size:
                    raise DataError(
                        f"{path}: {name} is stated as {entry}, but has {member.file_size - begin} bytes; {CURE}"
                    )
            if _nbytes(entry) <= SMALL:
                _parameter(name, _unpacked(path, archive, name), scalars, texts)
            if entry.dtype.kind != "U":
                arrays |= {} if entry.shape == () else _field_shapes(name, entry)

    @contextmanager
    def load(names: Sequence[str]) -> Iterator[Mapping[str, Sliceable]]:
        with parsing(path, "NPZ"), ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            members = dict.fromkeys(
                name.partition(".")[0] if name not in archive_names(archive) else name for name in names
            )
            loaded: dict[str, Sliceable] = {}
            for member in members:
                loaded |= _fields(member, _unpacked(path, archive, member, stack))
            yield loaded

    return ArrayContent(path, "npz", load, arrays, scalars, texts, tuple(notes)).signal_file(array)


def archive_names(archive: zipfile.ZipFile) -> set[str]:
    """Return the names of the arrays of an NPZ file."""
    return {name.removesuffix(".npy") for name in archive.namelist()}


def _header(path: Path, name: str, file: Any) -> Header:
    """Return the header of an array; numpy evaluates it as a literal, never as code."""
    version = npy_format.read_magic(file)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, columns, dtype = read(file)
    if any(side < 0 for side in shape):
        raise DataError(f"{path}: {name} has shape {shape}; {CURE}")
    return ArrayShape(tuple(map(int, shape)), dtype), columns, file.tell()


def _nbytes(entry: ArrayShape) -> int:
    count = entry.dtype.itemsize
    for side in entry.shape:
        count *= side
    return count


def _unpacked(path: Path, archive: zipfile.ZipFile, name: str, stack: ExitStack | None = None) -> npt.NDArray[Any]:
    """Return an array of an archive; its checksum is compared on the way."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        entry, columns, _ = _header(path, name, file)
        if entry.dtype.hasobject:
            raise DataError(f"{path}: {name} has Python objects, which are never loaded")
        order: Any = "F" if columns else "C"
        if info.file_size <= IN_MEMORY or stack is None:
            whole = file.read()
            return np.frombuffer(whole, entry.dtype).reshape(entry.shape, order=order)
        target: BinaryIO = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the caller's stack closes it
        while chunk := file.read(CHUNK_BYTES):
            target.write(chunk)
        target.flush()
        return np.memmap(target, entry.dtype, "r", 0, entry.shape, order=order)


def _fields(name: str, array: npt.NDArray[Any]) -> dict[str, Sliceable]:
    """Return an array by its name; one of records by field."""
    fields = array.dtype.names
    return {name: array} if fields is None else {f"{name}.{part}": array[part] for part in fields}


def _field_shapes(name: str, entry: ArrayShape) -> dict[str, ArrayShape]:
    fields = entry.dtype.fields
    if fields is None:
        return {name: entry}
    return {f"{name}.{part}": ArrayShape((*entry.shape, *kind.shape), kind.base) for part, (kind, *_) in fields.items()}


def _parameter(
    name: str, value: npt.NDArray[Any], scalars: dict[str, float], texts: dict[str, tuple[str, ...]]
) -> None:
    if value.dtype.kind == "U" and value.size:
        texts[name] = tuple(str(text) for text in value.reshape(-1))
    elif value.dtype.kind in "iuf" and value.size == 1:
        scalars[name] = float(value.reshape(-1)[0])


NPY = Reader(suffixes=(".npy",), accepts=lambda head: head.startswith(b"\x93NUMPY"), open=open_npy)
NPZ = Reader(suffixes=(".npz",), accepts=lambda head: head.startswith((b"PK\x03\x04", b"PK\x05\x06")), open=open_npz)
