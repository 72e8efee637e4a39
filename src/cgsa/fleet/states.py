"""Saved states of the machines of a fleet, each with the position in the log that it belongs to.

The name of a state has the epoch of its writer and then its position. A newer epoch counts first, so whatever an
earlier owner of a machine still writes is never used once a later one has saved a state. A state at a position is
bit-identical whoever writes it, so its position is its number, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from cgsa.errors import BundleError, DataError, is_environmental
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.live.state_file import RestoredState, SavedState, decode_state, encode_state

_FILE = re.compile(r"(\d{12,})-(\d{20})\.state")


class MachineStates:
    """The states of one machine, as the owner of an epoch reads and writes them; it keeps the newest ``keep``."""

    def __init__(self, folder: ObjectFolder, epoch: int, *, keep: int = 4) -> None:
        self._folder, self.epoch, self._keep = folder, epoch, keep
        self._notes: dict[str, bool] = {}
        self._known: dict[tuple[int, int], SavedState] = {}
        """What is known of states, by epoch and position."""

    @classmethod
    def newest_epoch(cls, folder: ObjectFolder) -> int:
        """Return the newest epoch with a state; 0 without one."""
        return max((int(match[1]) for match in map(_FILE.fullmatch, folder.names()) if match), default=0)

    def newest(self) -> RestoredState | None:
        """Return the newest state that passes its checks; if none can be read at present, this raises."""
        unreadable: BundleError | None = None
        for key in reversed(self._keys()):
            try:
                return decode_state(self._folder.read(_name(key)), self._path(key), key[1])
            except BundleError as problem:
                unreadable = problem if is_environmental(problem) else unreadable
                self._notes.setdefault(str(problem), False)
        if unreadable is not None:
            raise unreadable
        return None

    def saved(self) -> list[SavedState]:
        """Return what is known of the states that pass their checks, the best last; each file is read once."""
        keys = self._keys()
        for key in keys:
            if key not in self._known:
                try:
                    self._known[key] = decode_state(self._folder.read(_name(key)), self._path(key), key[1]).saved
                except BundleError as problem:
                    if is_environmental(problem):
                        raise
        self._known = {key: self._known[key] for key in keys if key in self._known}
        return list(self._known.values())

    def load(self, position: int) -> RestoredState:
        """Return the best state at a position."""
        for key in reversed(self._keys()):
            if key[1] == position:
                return decode_state(self._folder.read(_name(key)), self._path(key), position)
        raise DataError(f"{self._folder.path}: there is no state {position} any more")

    def take_notes(self) -> tuple[str, ...]:
        """Return the messages about states that do not pass, each once."""
        fresh = tuple(note for note, taken in self._notes.items() if not taken)
        self._notes.update(dict.fromkeys(fresh, True))
        return fresh

    def save(self, position: int, tensors: Mapping[str, Tensor], about: Mapping[str, object], *, time: float) -> None:
        """Write a state, then remove old ones; its results must be in the store, and its records in the log."""
        key = self.epoch, position
        _, pieces = encode_state(position, position, tensors, about, time=time, path=self._path(key))
        self._folder.write(_name(key), pieces)
        # What a later owner wrote is not this one's to remove.
        own = [known for known in self._keys() if known[0] <= self.epoch]
        for old in own[: -self._keep]:
            self._folder.remove(_name(old))

    def positions(self) -> tuple[int, ...]:
        """Return the positions of the states, in the order in which they would be used, the best last."""
        return tuple(position for _, position in self._keys())

    def _keys(self) -> list[tuple[int, int]]:
        matches = map(_FILE.fullmatch, self._folder.names())
        return sorted((int(match[1]), int(match[2])) for match in matches if match)

    def _path(self, key: tuple[int, int]) -> Path:
        return Path(self._folder.path) / _name(key)


def _name(key: tuple[int, int]) -> str:
    return f"{key[0]:012d}-{key[1]:020d}.state"
