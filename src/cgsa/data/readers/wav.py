"""Reader for WAV files of whole and floating-point numbers, in RIFF and in the 64-bit form RF64."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.data.columns import single_precision
from cgsa.data.readers import Reader
from cgsa.data.readers.damage import CURE, parsing, truncated
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import SignalFile
from cgsa.errors import DataError

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
OPEN_END = 0xFFFFFFFF
"""Size of a chunk whose writer did not know it, or which RF64 states elsewhere."""


@dataclass(frozen=True)
class _WavFormat:
    """The ``fmt`` chunk."""

    code: int
    channels: int
    rate: int
    frame_bytes: int
    bits: int

    @property
    def sample_bytes(self) -> int:
        return self.frame_bytes // self.channels

    def samples(self, raw: bytes) -> FloatArray:
        """Return frames as (channels, samples); the full scale of whole numbers is 1."""
        return single_precision(self._values(raw).reshape(-1, self.channels).T)

    def _values(self, raw: bytes) -> npt.NDArray[np.floating[Any]]:
        if self.code == FLOAT:
            return np.frombuffer(raw, f"<f{self.sample_bytes}")
        if self.sample_bytes == 1:
            return (np.frombuffer(raw, np.uint8) - 128.0) / 128
        if self.sample_bytes == 3:
            wide = np.zeros((len(raw) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
            return wide.view("<i4")[:, 0] / 2.0**31
        return np.frombuffer(raw, f"<i{self.sample_bytes}") / 2.0 ** (8 * self.sample_bytes - 1)


def open_wav(path: Path, array: str | None) -> SignalFile:
    """Return what a WAV file holds."""
    if array is not None:
        raise DataError(f"{path}: a WAV file holds a single recording; leave out array={array!r}")
    with parsing(path, "WAV"):
        form, begin, size = _chunks(path)
    frames = size // form.frame_bytes

    def blocks(samples: int) -> Iterator[FloatArray]:
        with path.open("rb") as file:
            file.seek(begin)
            for start in range(0, frames, samples):
                count = min(samples, frames - start) * form.frame_bytes
                raw = file.read(count)
                if len(raw) < count:
                    raise truncated(path, "the samples", begin, begin + size, path.stat().st_size)
                yield form.samples(raw)

    kind = f"{form.bits}-bit numbers" if form.code == FLOAT else f"{form.bits}-bit whole numbers; their full scale is 1"
    return SignalFile(
        path=path,
        format="wav",
        channels=tuple(f"column {place}" for place in range(1, form.channels + 1)),
        units=(None,) * form.channels,
        sample_rate=float(form.rate),
        samples=frames,
        read=blocks,
        named=False,
        notes=(f"{kind}; WAV states no unit",),
    )


def _chunks(path: Path) -> tuple[_WavFormat, int, int]:
    """Return the format, and first byte and size of the samples."""
    size = path.stat().st_size
    form: _WavFormat | None = None
    long_size: int | None = None
    with path.open("rb") as file:
        riff = file.read(12)
        stated = int.from_bytes(riff[4:8], "little")
        if riff[:4] == b"RIFF" and stated != OPEN_END and stated + 8 > size + 1:
            raise truncated(path, "the RIFF chunk", 0, stated + 8, size)
        place = 12
        while len(head := file.read(8)) == 8:
            name, count = head[:4], int.from_bytes(head[4:], "little")
            if name == b"data" and count == OPEN_END:
                if long_size is None:
                    raise DataError(f"{path}: the size of its samples was never written; its recording was interrupted")
                count = long_size
            if place + 8 + count > size:
                raise truncated(path, f"chunk {name.decode('latin-1')!r}", place, place + 8 + count, size)
            if name == b"data":
                return _checked(path, form, place, count), place + 8, count
            if name == b"fmt ":
                form = _format(path, file.read(min(count, 40)))
            elif name == b"ds64":
                long_size = int.from_bytes(file.read(min(count, 28))[8:16], "little")
            place += 8 + count + count % 2
            file.seek(place)
    raise DataError(f"{path}: has no samples (no chunk 'data' before byte {size}); {CURE}")


def _checked(path: Path, form: _WavFormat | None, place: int, count: int) -> _WavFormat:
    """Return the format of the samples, which must fit their size."""
    if form is None:
        raise DataError(f"{path}: the samples at byte {place} have no format before them; {CURE}")
    if count % form.frame_bytes:
        raise DataError(f"{path}: {count} bytes of samples are not divisible by {form.frame_bytes}; {CURE}")
    return form


def _format(path: Path, raw: bytes) -> _WavFormat:
    if len(raw) < 16:
        raise DataError(f"{path}: its format chunk has {len(raw)} bytes; expected at least 16; {CURE}")
    code, channels, rate, per_second, frame_bytes, bits = struct.unpack("<HHIIHH", raw[:16])
    if code == EXTENSIBLE and len(raw) >= 26:
        code = int.from_bytes(raw[24:26], "little")
    widths = {PCM: {8, 16, 24, 32}, FLOAT: {32, 64}}
    if code not in widths:
        raise DataError(f"{path}: samples are coded as {code}; expected PCM ({PCM}) or floating point ({FLOAT})")
    consistent = channels and rate and frame_bytes * 8 == channels * bits and per_second == rate * frame_bytes
    if not consistent or bits not in widths[code]:
        raise DataError(
            f"{path}: its format contradicts itself: {channels} channels of {bits} bits at {rate} Hz, {frame_bytes} "
            f"bytes per frame, {per_second} bytes per second; {CURE}"
        )
    return _WavFormat(code, channels, rate, frame_bytes, bits)


READER = Reader(
    suffixes=(".wav", ".wave"),
    accepts=lambda head: head[:4] in {b"RIFF", b"RF64"} and head[8:12] == b"WAVE",
    open=open_wav,
)
