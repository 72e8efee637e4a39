"""Reads the samples of a recording: CSV, NPY, NPZ and WAV files, or a stream of raw samples."""

from __future__ import annotations

import csv
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from .package import EdgeError, EdgePackage, Singles

STANDARD_INPUT = "-"


def read_blocks(
    path: str, package: EdgePackage, *, scale: float = 1.0, stream: BinaryIO | None = None
) -> Iterator[Singles]:
    """Yield the samples of a recording in blocks, (channels, samples), with the channels in the order of the model.

    Samples are multiplied by ``scale``, which makes them physical units. ``stream`` replaces standard input.
    """
    block = int(package.description["batch_size"]) * package.step
    if path == STANDARD_INPUT:
        for raw in _raw_blocks(stream or sys.stdin.buffer, len(package.channels), block):
            yield raw if scale == 1 else raw * np.float32(scale)
        return
    readers = {".csv": _read_csv, ".npy": _read_npy, ".npz": _read_npz, ".wav": _read_wav}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None:
        raise EdgeError(f"{path}: unknown format; expected {', '.join(readers)}, or - for raw samples")
    try:
        samples = reader(path, package) * scale if scale != 1 else reader(path, package)
    except (OSError, ValueError, EOFError, wave.Error, BadZipFile) as error:
        raise EdgeError(f"{path}: cannot read it: {error}") from error
    with np.errstate(over="ignore"):
        signal = np.ascontiguousarray(samples, dtype=np.float32)
    for begin in range(0, signal.shape[1], block):
        yield signal[:, begin : begin + block]


def _raw_blocks(stream: BinaryIO, channels: int, block: int) -> Iterator[Singles]:
    """Yield blocks of single-precision numbers, little-endian, one after the other for all channels of a sample."""
    size = 4 * channels * block
    while content := stream.read(size):
        if len(content) % (4 * channels):
            raise EdgeError(f"{len(content)} bytes at the end of the input; expected 4 per channel and sample")
        yield np.frombuffer(content, dtype="<f4").reshape(-1, channels).T.astype(np.float32)


def _read_csv(path: str, package: EdgePackage) -> npt.NDArray[np.floating]:
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        delimiter = max(",;\t", key=first.count)
        names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    missing = [name for name in package.channels if name not in names]
    if missing:
        raise EdgeError(f"{path}: no column {missing[0]!r}; it has {', '.join(names)}")
    columns = [names.index(name) for name in package.channels]
    # With semicolons between columns, a comma is a decimal comma.
    comma = delimiter == ";" and "," in _second_line(path)
    convert = (lambda text: float(text.replace(",", "."))) if comma else None
    found = np.loadtxt(path, delimiter=delimiter, skiprows=1, usecols=columns, ndmin=2, converters=convert)
    return np.asarray(found.T)


def _second_line(path: str) -> str:
    with Path(path).open(encoding="utf-8-sig") as file:
        file.readline()
        return file.readline()


def _read_npy(path: str, package: EdgePackage) -> npt.NDArray[np.floating]:
    with Path(path).open("rb") as file:
        return _oriented(path, np.load(file, allow_pickle=False), len(package.channels))


def _read_npz(path: str, package: EdgePackage) -> npt.NDArray[np.floating]:
    """Return arrays by the names of the channels, or the only table, in integers times ``scale`` if there is one."""
    with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
    if all(name in found for name in package.channels):
        return np.stack([found[name].reshape(-1) for name in package.channels])
    scale = found.pop("scale", None)
    if len(found) != 1:
        raise EdgeError(f"{path}: arrays {', '.join(found)}; expected {', '.join(package.channels)}, or a single table")
    table = _oriented(path, next(iter(found.values())), len(package.channels))
    return table if scale is None else table.astype(np.float32) * np.asarray(scale, dtype=np.float32).reshape(-1, 1)


def _read_wav(path: str, package: EdgePackage) -> npt.NDArray[np.floating]:
    """Return samples from -1 to 1."""
    with wave.open(path, "rb") as file:
        if file.getframerate() != package.sample_rate:
            raise EdgeError(f"{path}: {file.getframerate()} Hz; the model was trained at {package.sample_rate:g} Hz")
        width, channels = file.getsampwidth(), file.getnchannels()
        content = np.frombuffer(file.readframes(file.getnframes()), dtype=np.uint8)
    if width not in {2, 3, 4}:
        raise EdgeError(f"{path}: {8 * width} bits per sample; expected 16, 24 or 32")
    # Every width becomes 32 bits, with the missing digits as zeros.
    words = np.zeros((len(content) // width, 4), dtype=np.uint8)
    words[:, 4 - width :] = content.reshape(-1, width)
    return _oriented(path, words.view("<i4").reshape(-1, channels) / 2.0**31, len(package.channels))


def _oriented(path: str, table: npt.NDArray[np.generic], channels: int) -> npt.NDArray[np.floating]:
    """Return a table as (channels, samples), whichever way it is stored."""
    if table.ndim == 1 and channels == 1:
        table = table[None]
    if table.dtype.kind not in "fiu" or table.ndim != 2 or channels not in table.shape:
        raise EdgeError(f"{path}: array of {table.dtype} and shape {table.shape}; expected {channels} channels")
    upright = table.shape[0] == channels and table.shape[1] > table.shape[0]
    return np.asarray(table if upright else table.T).astype(np.float32 if table.dtype.kind != "f" else table.dtype)
