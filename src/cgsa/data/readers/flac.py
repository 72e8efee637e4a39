"""Reader for FLAC files, with the library soundfile; the checksum of the samples is compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgsa.data.readers import Reader
from cgsa.data.readers.damage import CURE, parsing, require_extra
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import BLOCK_SAMPLES, SignalFile
from cgsa.errors import DataError


def open_flac(path: Path, array: str | None) -> SignalFile:
    """Return what a FLAC file holds; all of it is decoded once, to compare the checksum."""
    if array is not None:
        raise DataError(f"{path}: a FLAC file holds a single recording; leave out array={array!r}")
    with path.open("rb") as file:
        head = file.read(42)
    if len(head) < 42 or head[4] & 0x7F:
        raise DataError(f"{path}: does not begin with the description of a stream; {CURE}")
    rate, channels = int.from_bytes(head[18:21], "big") >> 4, (head[20] >> 1 & 7) + 1
    bits = ((head[20] & 1) << 4 | head[21] >> 4) + 1
    stated, checksum = int.from_bytes(head[21:26], "big") & (1 << 36) - 1, head[26:42]
    digest, frames = hashlib.md5(usedforsecurity=False), 0
    for block in _decoded(path, BLOCK_SAMPLES):
        digest.update(_packed(block, bits))
        frames += len(block)
    if not frames:
        raise DataError(f"{path}: holds no samples; {CURE}")
    if stated and frames != stated:
        raise DataError(f"{path}: truncated after {frames} of {stated} samples; copy or export it again")
    if any(checksum) and digest.digest() != checksum:
        raise DataError(f"{path}: the checksum of its samples differs from the stated one; {CURE}")

    def blocks(samples: int) -> Iterator[FloatArray]:
        for block in _decoded(path, samples):
            yield (block / 2.0**31).astype(np.float32).T

    return SignalFile(
        path=path,
        format="flac",
        channels=tuple(f"column {place}" for place in range(1, channels + 1)),
        units=(None,) * channels,
        sample_rate=float(rate),
        samples=frames,
        read=blocks,
        named=False,
        notes=(f"{bits}-bit whole numbers; their full scale is 1; FLAC states no unit",),
    )


def _decoded(path: Path, samples: int) -> Iterator[npt.NDArray[np.int32]]:
    """Yield the samples, (samples, channels); their highest bits are used."""
    soundfile = require_extra(path, "soundfile", "soundfile")
    with parsing(path, "FLAC"), soundfile.SoundFile(path) as file:
        while len(block := file.read(samples, dtype="int32", always_2d=True)):
            yield block


def _packed(block: npt.NDArray[np.int32], bits: int) -> bytes:
    """Return samples as the checksum takes them: whole numbers of the fewest bytes, little-endian."""
    width = (bits + 7) // 8
    whole = np.ascontiguousarray(block >> (32 - bits)).astype("<i4")
    return whole.view(np.uint8).reshape(-1, 4)[:, :width].tobytes()


READER = Reader(suffixes=(".flac",), accepts=lambda head: head.startswith(b"fLaC"), open=open_flac)
