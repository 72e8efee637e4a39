"""Saved states of a watch, each with the position in the journal that it belongs to.

One file holds one state (:mod:`cgsa.live.state_file`), and numbers are never reused.

A file that fails its checks is reported and left where it is: a newer cgsa may have
written it, or the disk may only have been busy.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor

from cgsa.errors import BundleError, ConfigError, is_environmental
from cgsa.files import replacing
from cgsa.live.state_file import RestoredState, SavedState, encode_state, read_description, read_state
from cgsa.nn import container

REPLAYABLE_STATES = 3
"""The journal reaches back to this many states: if one is damaged, the one before it takes over."""
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
        self._remove_leftovers()
        number = max(self._numbers(), default=0) + 1
        target = self._path(number)
        saved, pieces = encode_state(number, position, tensors, about, time=time, path=target)
        with replacing(target, BundleError) as fresh, fresh.open("wb") as file:
            file.writelines(pieces)
        self._prune(protect)
        return saved

    def states(self) -> tuple[SavedState, ...]:
        """Return the states, oldest first; their headers are read and checked, their tensors are not."""
        found = []
        for number in sorted(self._numbers()):
            try:
                with container.open_regular(self._path(number)) as file:
                    found.append(read_description(file, self._path(number), number))
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
            return read_state(file, path, number)

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
