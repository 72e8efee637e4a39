"""Checkpoints of a watch: whole states, each with the position in the journal that it belongs to.

One file holds one state, and its number never comes again::

    magic, version, length of the header, length of the tensors, SHA-256 of these and the header
    header   JSON: number, position, time, SHA-256 of the tensors, and what the caller says about the state
    tensors  as in a safetensors file

So a list of states needs the headers alone and still believes none that is
damaged. SHA-256 takes 0.05 s for the 84 MB of the paper's student on a
processor with instructions for it and 0.2 s on one without; BLAKE2b takes 0.1 s
on both. Either is quick enough to roll back within a second, and SHA-256 is
what model bundles have. Nothing is ever unpickled.

A file that cannot be believed is told of and left where it is: it may have been
written by a newer cgsa, or the disk may only have been busy.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shutil
import stat
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from cgsa.config import bind
from cgsa.errors import BundleError, ConfigError
from cgsa.files import replacing

MAGIC = b"cgsaLIVE"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQ32s")
"""Magic, version, bytes of the header, bytes of the tensors, SHA-256 of these four and the header."""
DIGEST_BYTES = 32
MAX_HEADER_BYTES = 16 * 2**20
MAX_TENSOR_BYTES = 4 * 2**30

MINUTE, HOUR, DAY = 60, 3600, 86_400

_FILE = re.compile(r"(\d{8,})\.state")
_LEFTOVER = re.compile(r"\.\d{8,}\.state\..+")
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""What safetensors calls them."""


@dataclass(frozen=True)
class StateRetention:
    """Which states stay: the newest, then fewer the older they are, within a bound on their bytes."""

    newest: int = 4
    """So many of the newest, at least two: should one be damaged, there is another."""
    minutely: int = 30
    """The last state of each of so many minutes in which there is one."""
    hourly: int = 24
    """The same for hours..."""
    daily: int = 30
    """...and for days."""
    max_bytes: int = 2 * 2**30
    """The oldest are given up where there are more, but for the two newest and those that somebody protects."""

    def __post_init__(self) -> None:
        if self.newest < 2 or min(self.minutely, self.hourly, self.daily, self.max_bytes) < 0:
            raise ConfigError(
                f"newest {self.newest}, minutely {self.minutely}, hourly {self.hourly}, daily {self.daily}, max_bytes "
                f"{self.max_bytes}; expected at least 2 newest, and no negative number"
            )


@dataclass(frozen=True)
class SavedState:
    """One state on the disk, without its tensors."""

    number: int
    """Grows from state to state."""
    position: int
    """Of the first record of the journal that the state has not seen."""
    time: float
    """When it was saved, in seconds, by the clock of the caller."""
    bytes: int
    """Size of its file."""
    sha256: str
    """Of the tensors: states that have the same are the same, bit for bit."""
    about: Mapping[str, object]
    """What the caller said about it."""


@dataclass(frozen=True, eq=False)
class RestoredState:
    """One state with its tensors, on the CPU."""

    saved: SavedState
    tensors: Mapping[str, Tensor]


class Checkpoints:
    """The states of one watch. Any process may read them, one at a time may save.

    Parameters
    ----------
    folder
        Where the states are, or will be.
    retention
        Which states stay when another one is saved.
    """

    def __init__(self, folder: str | Path, *, retention: StateRetention | None = None) -> None:
        self.folder = Path(folder)
        self.retention = retention or StateRetention()
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know: which states were refused and why, each told once."""
        return tuple(self._notes)

    def save(
        self,
        position: int,
        tensors: Mapping[str, Tensor],
        about: Mapping[str, object],
        *,
        time: float,
        protect: Collection[int] = (),
    ) -> SavedState:
        """Write a state in one step, then remove those that need not stay; never one that is protected.

        The tensors are written from where they are, so nobody may change them
        meanwhile. The journal is synced first: a state must not outlive the
        records that it has seen.
        """
        if position < 0 or not math.isfinite(time):
            raise BundleError(f"a state at position {position} and time {time}; expected 0 or more, and a finite time")
        self._sweep()
        number = max(self._numbers(), default=0) + 1
        target = self._path(number)
        pieces = _safetensors(tensors)
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        header = _encoded(
            {"number": number, "position": position, "time": time, "sha256": digest.hexdigest(), "about": dict(about)}
        )
        size = sum(map(len, pieces))
        if len(header) > MAX_HEADER_BYTES or size > MAX_TENSOR_BYTES:
            raise BundleError(
                f"a state with {size} bytes of tensors and {len(header)} of words about it; "
                f"at most {MAX_TENSOR_BYTES} and {MAX_HEADER_BYTES} are saved"
            )
        with replacing(target, BundleError) as fresh, fresh.open("wb") as file:
            for part in (_preamble(header, size), header, *pieces):
                file.write(part)
        saved = _described(header, PREAMBLE.size + len(header) + size, target)
        self._prune(protect)
        return saved

    def states(self) -> tuple[SavedState, ...]:
        """Return what states there are, the oldest first; their headers are read and checked, their tensors not."""
        found = []
        for number in sorted(self._numbers()):
            try:
                with _opened(self._path(number)) as file:
                    found.append(_read_head(file, self._path(number))[0])
            except BundleError as problem:
                self._note(problem)
        return tuple(found)

    def newest(self) -> RestoredState | None:
        """Return the newest state that can be believed; notes tell which were passed over, and why."""
        for number in sorted(self._numbers(), reverse=True):
            try:
                return self.load(number)
            except BundleError as problem:
                self._note(problem)
        return None

    def load(self, number: int) -> RestoredState:
        """Read one state, or say why it is refused."""
        path = self._path(number)
        with _opened(path) as file:
            saved, size = _read_head(file, path)
            data = _read(file, size, path)
        if hashlib.sha256(data).hexdigest() != saved.sha256:
            raise BundleError(f"{path}: its tensors are damaged: their hash differs from that in the header")
        try:
            return RestoredState(saved, load_tensors(data))
        except SafetensorError as problem:
            raise BundleError(f"{path}: its tensors are no safetensors ({problem})") from problem

    def _prune(self, protect: Collection[int]) -> None:
        states = self.states()
        stays = kept(states, self.retention, protect)
        for state in states:
            if state.number not in stays:
                try:
                    self._path(state.number).unlink(missing_ok=True)
                except OSError as problem:
                    # The new state is safe; an old one that stays costs room and nothing else.
                    self._note(f"{self._path(state.number)}: cannot be removed ({problem.strerror})")

    def _sweep(self) -> None:
        """Remove what a process that was killed while saving left behind."""
        for path in self._listed():
            if _LEFTOVER.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)

    def _numbers(self) -> list[int]:
        return [int(match[1]) for match in (_FILE.fullmatch(path.name) for path in self._listed()) if match]

    def _listed(self) -> list[Path]:
        try:
            return list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise BundleError(f"{self.folder}: no states can be kept here ({problem.strerror})") from problem

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.state"

    def _note(self, problem: BundleError | str) -> None:
        self._notes[str(problem)] = None


def kept(states: Iterable[SavedState], retention: StateRetention, protect: Collection[int] = ()) -> frozenset[int]:
    """Return the numbers of the states that stay.

    Minutes, hours and days count only where they have a state. A machine that stood for
    a month keeps its history, and one wrong time stamp does not push it out.
    """
    ordered = sorted(states, key=lambda state: state.number, reverse=True)
    wanted = {state.number for state in ordered[: retention.newest]}
    spans = ((MINUTE, retention.minutely), (HOUR, retention.hourly), (DAY, retention.daily))
    for seconds, count in spans:
        last: dict[float, int] = {}
        for state in ordered:
            last.setdefault(state.time // seconds, state.number)
        wanted |= set(list(last.values())[:count])
    certain = {state.number for state in ordered[:2]} | {state.number for state in ordered if state.number in protect}
    stays = set(certain)
    room = retention.max_bytes - sum(state.bytes for state in ordered if state.number in certain)
    for state in ordered:
        if state.number in wanted - certain:
            room -= state.bytes
            if room < 0:
                break
            stays.add(state.number)
    return frozenset(stays)


def surroundings(device: torch.device | str) -> dict[str, object]:
    """Return what the bits of a computation depend on besides its state: to be said about every state."""
    where = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else str(where),
        "threads": torch.get_num_threads(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        # By name: to import the package counts as importing all that it offers.
        "cgsa": import_module("cgsa").__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _safetensors(tensors: Mapping[str, Tensor]) -> list[bytes | memoryview]:
    """Return a safetensors file in pieces, which are the tensors' own memory: the library's way copies them twice."""
    held = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    table, pieces, offset = {}, [], 0
    for name, tensor in held.items():
        if tensor.dtype not in _TYPES:
            raise BundleError(
                f"tensor {name} of a state is {tensor.dtype}; expected one of {', '.join(_TYPES.values())}"
            )
        pieces.append(tensor.reshape(-1).view(torch.uint8).numpy().data)
        end = offset + len(pieces[-1])
        table[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(table).encode()
    return [len(header).to_bytes(8, "little"), header, *pieces]


def _encoded(header: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(header).encode()
    except (TypeError, ValueError) as problem:
        raise BundleError(f"what is said about a state must be plain JSON ({problem})") from problem


def _preamble(header: bytes, size: int) -> bytes:
    known = PREAMBLE.pack(MAGIC, VERSION, len(header), size, b"")[:-DIGEST_BYTES]
    return known + hashlib.sha256(known + header).digest()


def _opened(path: Path) -> BinaryIO:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BundleError(f"{path}: not a plain file")
        return path.open("rb")
    except OSError as problem:
        raise BundleError(f"{path}: cannot be read ({problem.strerror})") from problem


def _read(file: BinaryIO, size: int, path: Path) -> bytes:
    try:
        data = file.read(size)
    except OSError as problem:
        raise BundleError(f"{path}: cannot be read ({problem.strerror})") from problem
    if len(data) < size:
        raise BundleError(f"{path}: cut short")
    return data


def _read_head(file: BinaryIO, path: Path) -> tuple[SavedState, int]:
    """Return what a file says about its state, and the bytes of its tensors; none are read that the file lacks."""
    raw = _read(file, PREAMBLE.size, path)
    magic, version, header_bytes, size, digest = PREAMBLE.unpack(raw)
    if magic != MAGIC:
        raise BundleError(f"{path}: no state of a watch")
    if version != VERSION:
        raise BundleError(f"{path}: state version {version}; this cgsa reads version {VERSION}")
    if header_bytes > MAX_HEADER_BYTES or size > MAX_TENSOR_BYTES:
        raise BundleError(
            f"{path}: says that it has {header_bytes} bytes of header and {size} of tensors; "
            f"at most {MAX_HEADER_BYTES} and {MAX_TENSOR_BYTES} are read"
        )
    expected, there = PREAMBLE.size + header_bytes + size, os.fstat(file.fileno()).st_size
    if there != expected:
        raise BundleError(f"{path}: {there} bytes; expected {expected}: it was cut short or added to")
    header = _read(file, header_bytes, path)
    if hashlib.sha256(raw[:-DIGEST_BYTES] + header).digest() != digest:
        raise BundleError(f"{path}: its header is damaged: its hash differs")
    return _described(header, expected, path), size


def _described(header: bytes, size: int, path: Path) -> SavedState:
    try:
        saved = bind(SavedState, {**json.loads(header), "bytes": size}, str(path))
    except (ValueError, TypeError, RecursionError, ConfigError) as problem:
        raise BundleError(f"{path}: its header is none of a state ({problem})") from problem
    if path.name != f"{saved.number:08d}.state":
        raise BundleError(f"{path}: holds state {saved.number}; it was renamed or copied")
    return saved
