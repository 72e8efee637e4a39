"""Saved states of a watch, each with the position in the journal that it belongs to.

One file holds one state, and numbers are never reused::

    magic, version, length of the header, length of the tensors, SHA-256 of these and the header
    header   JSON: number, position, time, SHA-256 of the tensors, and what the caller says about the state
    tensors  as in a safetensors file

So listing the states reads only their headers and still detects damaged ones.
SHA-256 takes 0.05 s for the 84 MB of the paper's student on a processor with
instructions for it and 0.2 s on one without; BLAKE2b takes 0.1 s on both. Either
is fast enough to roll back within a second, and model bundles use SHA-256, too.

A file that fails its checks is reported and left where it is: a newer cgsa may have
written it, or the disk may only have been busy.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import shutil
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from cgsa.config import bind
from cgsa.errors import BundleError, ConfigError, is_environmental
from cgsa.files import replacing
from cgsa.nn import container

MAGIC = b"cgsaLIVE"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQ32s")
"""Magic, version, bytes of the header, bytes of the tensors, SHA-256 of these four and the header."""
DIGEST_BYTES = 32

MINUTE, HOUR, DAY = 60, 3600, 86_400

_FILE = re.compile(r"(\d{8,})\.state")
_LEFTOVER = re.compile(r"\.\d{8,}\.state\..+")


@dataclass(frozen=True)
class StateRetention:
    """Which states are kept: the newest, then fewer the older they are, within a limit on their total size."""

    newest: int = 4
    """Number of newest states, at least two: if one is damaged, there is another."""
    minutely: int = 30
    """The last state of each of this many minutes; minutes without a state do not count."""
    hourly: int = 24
    """The last state of each of this many hours."""
    daily: int = 30
    """The last state of each of this many days."""
    max_bytes: int = 2 * 2**30
    """Above this the oldest states go, except for the two newest and protected ones."""

    def __post_init__(self) -> None:
        if self.newest < 2 or min(self.minutely, self.hourly, self.daily, self.max_bytes) < 0:
            raise ConfigError(
                f"newest {self.newest}, minutely {self.minutely}, hourly {self.hourly}, daily {self.daily}, max_bytes "
                f"{self.max_bytes}; expected at least 2 newest, and no negative number"
            )


@dataclass(frozen=True)
class SavedState:
    """Description of a state on the disk, without its tensors."""

    number: int
    """Increases from state to state."""
    position: int
    """Position of the first journal record that the state does not include."""
    time: float
    """When it was saved, in seconds, by the clock of the caller."""
    bytes: int
    """Size of its file."""
    sha256: str
    """Hash of the tensors: equal hashes mean bit-identical states."""
    about: Mapping[str, object]
    """What the caller stored with it."""


@dataclass(frozen=True, eq=False)
class RestoredState:
    """A state with its tensors, on the CPU."""

    saved: SavedState
    tensors: Mapping[str, Tensor]


class Checkpoints:
    """The saved states of one watch. Any process may read them; only one at a time may save.

    The folder is created when needed; ``retention`` decides which states are kept when another one is saved.
    """

    def __init__(self, folder: str | Path, *, retention: StateRetention | None = None) -> None:
        self.folder = Path(folder)
        self.retention = retention or StateRetention()
        self._notes: dict[str, bool] = {}
        """Each message, and whether it was taken."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the operator: which states were refused and why, each once."""
        return tuple(self._notes)

    def take_notes(self) -> tuple[str, ...]:
        """Return the messages that this has not returned before."""
        fresh = tuple(note for note, taken in self._notes.items() if not taken)
        self._notes.update(dict.fromkeys(fresh, True))
        return fresh

    def save(
        self,
        position: int,
        tensors: Mapping[str, Tensor],
        about: Mapping[str, object],
        *,
        time: float,
        protect: Collection[int] = (),
    ) -> SavedState:
        """Write a state atomically, then remove states that need not be kept; never a protected one.

        The tensors are written from their own memory, so they must not change
        meanwhile. Sync the journal first: a state must not survive a power failure
        that its records do not.
        """
        if position < 0 or not math.isfinite(time):
            raise BundleError(f"a state at position {position} and time {time}; expected 0 or more, and a finite time")
        self._remove_leftovers()
        number = max(self._numbers(), default=0) + 1
        target = self._path(number)
        pieces = container.encode_tensors(tensors)
        about_it = {"number": number, "position": position, "time": time, "sha256": container.sha256_of(pieces)}
        header = container.encode_object({**about_it, "about": dict(about)}, "what is stored about a state")
        size = sum(map(len, pieces))
        if len(header) > container.MAX_HEADER_BYTES or size > container.MAX_TENSOR_BYTES:
            raise BundleError(
                f"a state with {size} bytes of tensors and a header of {len(header)} bytes; "
                f"at most {container.MAX_TENSOR_BYTES} and {container.MAX_HEADER_BYTES} are saved"
            )
        with replacing(target, BundleError) as fresh, fresh.open("wb") as file:
            file.writelines((_preamble(header, size), header, *pieces))
        saved = _described(header, PREAMBLE.size + len(header) + size, target)
        self._prune(protect)
        return saved

    def states(self) -> tuple[SavedState, ...]:
        """Return the states, oldest first; their headers are read and checked, their tensors are not."""
        found = []
        for number in sorted(self._numbers()):
            try:
                with container.open_regular(self._path(number)) as file:
                    found.append(_read_header(file, self._path(number))[0])
            except BundleError as problem:
                self._note(problem)
        return tuple(found)

    def has(self, number: int) -> bool:
        """Return whether there is a state of this number."""
        return self._path(number).exists()

    def newest(self) -> RestoredState | None:
        """Return the newest state that passes its checks; ``notes`` lists the ones skipped, and why.

        If none can be read at present, this raises: a service that is short of handles must not start afresh.
        """
        unreadable: BundleError | None = None
        for number in sorted(self._numbers(), reverse=True):
            try:
                return self.load(number)
            except BundleError as problem:
                unreadable = problem if is_environmental(problem) else unreadable
                self._note(problem)
        if unreadable is not None:
            raise unreadable
        return None

    def load(self, number: int) -> RestoredState:
        """Read one state, or say why it is refused."""
        path = self._path(number)
        with container.open_regular(path) as file:
            saved, size = _read_header(file, path)
            data = container.read_exactly(file, size, path)
        if container.sha256_of([data]) != saved.sha256:
            raise BundleError(f"{path}: its tensors are damaged: their hash differs from that in the header")
        return RestoredState(saved, container.decode_tensors(data, path))

    def _prune(self, protect: Collection[int]) -> None:
        states = self.states()
        kept = states_to_keep(states, self.retention, protect)
        for state in states:
            if state.number not in kept:
                try:
                    self._path(state.number).unlink(missing_ok=True)
                except OSError as problem:
                    # The new state is safe; an old one that stays only takes space.
                    self._note(f"{self._path(state.number)}: cannot be removed ({problem.strerror})")

    def _remove_leftovers(self) -> None:
        """Remove temporary folders of a process that was killed while saving."""
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
        self._notes.setdefault(str(problem), False)


def state_loader(folder: Path) -> Callable[[int], Mapping[str, Tensor]]:
    """Return a function that loads the tensors of an earlier state from a machine's folder by number."""
    states = Checkpoints(folder / "states")

    def load(number: int) -> Mapping[str, Tensor]:
        # One that is missing stays missing: the command is refused, whenever it is repeated.
        if not states.has(number):
            raise BundleError(f"{folder.name}: there is no state {number} any more")
        return states.load(number).tensors

    return load


def states_to_keep(
    states: Iterable[SavedState], retention: StateRetention, protect: Collection[int] = ()
) -> frozenset[int]:
    """Return the numbers of the states to keep.

    Only minutes, hours and days with a state count. A machine that stood still for
    a month keeps its history, and one wrong time stamp does not push it out.
    """
    ordered = sorted(states, key=lambda state: state.number, reverse=True)
    wanted = {state.number for state in ordered[: retention.newest]}
    for seconds, count in ((MINUTE, retention.minutely), (HOUR, retention.hourly), (DAY, retention.daily)):
        last: dict[float, int] = {}
        for state in ordered:
            last.setdefault(state.time // seconds, state.number)
        wanted |= set(list(last.values())[:count])
    certain = {state.number for state in ordered[:2]} | {state.number for state in ordered if state.number in protect}
    kept = set(certain)
    room = retention.max_bytes - sum(state.bytes for state in ordered if state.number in certain)
    for state in ordered:
        if state.number in wanted - certain:
            room -= state.bytes
            if room < 0:
                break
            kept.add(state.number)
    return frozenset(kept)


def environment(device: torch.device | str) -> dict[str, object]:
    """Return what bit-identical results depend on besides the state; stored with every state."""
    where = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else str(where),
        "threads": torch.get_num_threads(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        # Imported by name: import-linter counts an import of the package as one of everything it exports.
        "cgsa": import_module("cgsa").__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _preamble(header: bytes, size: int) -> bytes:
    known = PREAMBLE.pack(MAGIC, VERSION, len(header), size, b"")[:-DIGEST_BYTES]
    return known + hashlib.sha256(known + header).digest()


def _read_header(file: BinaryIO, path: Path) -> tuple[SavedState, int]:
    """Return the description of a state and the size of its tensors; sizes are checked before anything is read."""
    raw = container.read_exactly(file, PREAMBLE.size, path)
    magic, version, header_bytes, size, digest = PREAMBLE.unpack(raw)
    if magic != MAGIC:
        raise BundleError(f"{path}: not a state of a watch")
    if version != VERSION:
        raise BundleError(f"{path}: state version {version}; this cgsa reads version {VERSION}")
    if header_bytes > container.MAX_HEADER_BYTES or size > container.MAX_TENSOR_BYTES:
        raise BundleError(
            f"{path}: declares {header_bytes} bytes of header and {size} of tensors; "
            f"at most {container.MAX_HEADER_BYTES} and {container.MAX_TENSOR_BYTES} are read"
        )
    expected, there = PREAMBLE.size + header_bytes + size, os.fstat(file.fileno()).st_size
    if there != expected:
        raise BundleError(f"{path}: {there} bytes; expected {expected}: it was cut short or added to")
    header = container.read_exactly(file, header_bytes, path)
    if hashlib.sha256(raw[:-DIGEST_BYTES] + header).digest() != digest:
        raise BundleError(f"{path}: its header is damaged: its hash differs")
    return _described(header, expected, path), size


def _described(header: bytes, size: int, path: Path) -> SavedState:
    try:
        saved = bind(SavedState, {**container.parse_object(header, path), "bytes": size}, str(path))
    except (BundleError, ConfigError) as problem:
        raise BundleError(f"{path}: its header does not describe a state ({problem})") from problem
    if path.name != f"{saved.number:08d}.state":
        raise BundleError(f"{path}: holds state {saved.number}; it was renamed or copied")
    return saved
