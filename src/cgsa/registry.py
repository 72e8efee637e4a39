"""Named things: methods, objectives, readers, front-ends, rigs.

Built-in entries are named as ``"module:attribute"`` and imported when they are
asked for, so listing names costs no heavy import. Other packages add entries
through the entry-point group of the registry, or with :meth:`Registry.register`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from cgsa.errors import ConfigError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from names to things of one kind.

    Parameters
    ----------
    kind
        What the entries are, in words; errors use it ("unknown online method").
    group
        Entry-point group through which other packages add their own.
    builtin
        Our own entries as ``name -> "module:attribute"``.
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._lazy: dict[str, str | EntryPoint] = dict(builtin)
        self._loaded: dict[str, T] = {}
        self._outsiders_read = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds its target under ``name``."""

        def add(thing: T) -> T:
            if name in self:
                raise ConfigError(f"{self.kind} {name!r} is registered already; choose another name")
            self._loaded[name] = thing
            return thing

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UnknownNameError(self._unknown(name))
        if name not in self._loaded:
            self._loaded[name] = self._load(self._lazy[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        self._read_outsiders()
        return name in self._lazy or name in self._loaded

    def __iter__(self) -> Iterator[str]:
        self._read_outsiders()
        return iter(sorted({*self._lazy, *self._loaded}))

    def _load(self, entry: str | EntryPoint) -> T:
        if isinstance(entry, EntryPoint):
            return cast(T, entry.load())
        module, _, attribute = entry.partition(":")
        loaded: Any = getattr(import_module(module), attribute)
        return cast(T, loaded)

    def _read_outsiders(self) -> None:
        if self._outsiders_read:
            return
        self._outsiders_read = True
        for point in entry_points(group=self.group):
            if point.name in self._lazy:
                raise ConfigError(
                    f"{self.kind} {point.name!r} of {point.value} takes a name that is in use; "
                    f"rename it in the entry points of its package"
                )
            self._lazy[point.name] = point

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, list(self), n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        return f"unknown {self.kind} {name!r};{hint} known: {', '.join(self)}"
