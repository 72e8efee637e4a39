"""Registries of methods, objectives, readers, front-ends and rigs by name.

Built-in entries are given as ``"module:attribute"`` and imported on first use,
so that listing names needs no heavy import. Other packages add entries through
the entry-point group of the registry, or with :meth:`Registry.register`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from cgsa.errors import ConfigError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named entries of one kind.

    ``kind`` names the entries in messages ("unknown online method"), ``group`` is the entry-point group through which
    other packages add entries, and ``builtin`` has the built-in ones as ``name -> "module:attribute"``.
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._available = {name: EntryPoint(name, value, group) for name, value in builtin.items()}
        self._loaded: dict[str, T] = {}
        self._entry_points_read = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds its target under ``name``."""

        def add(entry: T) -> T:
            if name in self:
                raise ConfigError(f"{self.kind} {name!r} is already registered; choose another name")
            self._loaded[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self:
            near = difflib.get_close_matches(name, list(self), n=1)
            hint = f" did you mean {near[0]!r}?" if near else ""
            raise UnknownNameError(f"unknown {self.kind} {name!r};{hint} known: {', '.join(self)}")
        if name not in self._loaded:
            self._loaded[name] = self._available[name].load()
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        self._read_entry_points()
        return name in self._available or name in self._loaded

    def __iter__(self) -> Iterator[str]:
        self._read_entry_points()
        return iter(sorted({*self._available, *self._loaded}))

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        self._entry_points_read = True
        for point in entry_points(group=self.group):
            if point.name in self._available:
                raise ConfigError(
                    f"{self.kind} {point.name!r} of {point.value} uses a name that is taken; "
                    f"rename it in the entry points of its package"
                )
            self._available[point.name] = point
