"""What bundles, training checkpoints and live states share: tensors as safetensors, a JSON header, a SHA-256.

Every reader checks sizes before it allocates memory, reads regular files only and
never unpickles anything. Errors are :class:`BundleError` and name the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from cgsa.errors import BundleError

MAX_TENSOR_BYTES = 4 * 2**30
MAX_HEADER_BYTES = 16 * 2**20

Pieces = Sequence[bytes | memoryview]
"""Consecutive parts of a file; they may share memory with tensors, which must not change until they are written."""

DTYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Names of data types in safetensors, in the order in which the format aligns tensors: widest first."""


def encode_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> Pieces:
    """Return the bytes that ``safetensors.torch.save`` would return, but without its two copies of every tensor."""
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise BundleError(f"tensor {name} is {tensor.dtype}; expected one of {', '.join(DTYPES.values())}")
    ranks = {dtype: rank for rank, dtype in enumerate(DTYPES)}
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    pieces: list[bytes | memoryview] = []
    offset = 0
    for name in sorted(tensors, key=lambda name: (ranks[tensors[name].dtype], name)):
        tensor = tensors[name].detach().cpu().contiguous()
        pieces.append(tensor.reshape(-1).view(torch.uint8).numpy().data)
        end = offset + len(pieces[-1])
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *pieces]


def decode_tensors(data: bytes, path: Path, *, max_header: int = MAX_HEADER_BYTES) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file that was read from ``path``."""
    _header(data, path, max_header)
    try:
        return load(data)
    except SafetensorError as error:
        raise BundleError(f"{path}: not a safetensors file ({error})") from error


def decode_metadata(data: bytes, path: Path) -> dict[str, object]:
    """Return the metadata of a safetensors file that was read from ``path``."""
    found = parse_object(_header(data, path, MAX_HEADER_BYTES), path).get("__metadata__")
    return found if isinstance(found, dict) else {}


def sha256_of(pieces: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of consecutive pieces, as hexadecimal digits."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors whose names, types or shapes differ from the expected ones, and values that are not finite."""
    problems = [f"no tensor {name}" for name in expected.keys() - found.keys()]
    problems += [f"unexpected tensor {name}" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        wanted, given = expected[name], found[name]
        if wanted.shape != given.shape or wanted.dtype != given.dtype:
            problems.append(
                f"tensor {name} is {given.dtype} {tuple(given.shape)}, expected {wanted.dtype} {tuple(wanted.shape)}"
            )
        elif not torch.isfinite(given).all():
            problems.append(f"tensor {name} holds NaN or infinity")
    if problems:
        raise BundleError(f"{path}: does not fit its manifest: " + "; ".join(sorted(problems)))


def encode_object(values: Mapping[str, object], what: str, *, indent: int | None = None) -> bytes:
    """Return ``values`` as JSON, or say that ``what`` cannot be written as JSON."""
    try:
        return json.dumps(values, indent=indent).encode()
    except (TypeError, ValueError) as error:
        raise BundleError(f"{what} must be plain JSON ({error})") from error


def parse_object(raw: bytes | str, path: Path) -> dict[str, Any]:
    """Return the JSON object that was read from ``path``."""
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not JSON ({error})") from error
    if not isinstance(values, dict):
        raise BundleError(f"{path}: JSON of a {type(values).__name__}; expected an object")
    return values


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a link, a device or a pipe is refused unopened."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BundleError(f"{path}: not a plain file")
        return path.open("rb")
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from error


def read_exactly(file: BinaryIO, size: int, path: Path) -> bytes:
    """Read the next ``size`` bytes of a file."""
    try:
        data = file.read(size)
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from error
    if len(data) < size:
        raise BundleError(f"{path}: cut short")
    return data


def read_regular(path: Path, limit: int) -> bytes:
    """Read a whole regular file of at most ``limit`` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise BundleError(f"{path}: {size} bytes; at most {limit} are read")
        return read_exactly(file, size, path)


def _header(data: bytes, path: Path, limit: int) -> bytes:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(limit, len(data) - 8):
        raise BundleError(f"{path}: not a safetensors file: its header would take {size} bytes")
    return data[8 : 8 + size]
