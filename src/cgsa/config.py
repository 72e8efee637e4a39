"""Settings: from TOML files and ``key=value`` words to frozen dataclasses.

A default lives once, in its dataclass; a file lists only what differs. Every
wrong key and value of a file is reported at once, each with its full name.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast

from cgsa.errors import ConfigError, UnknownNameError

T = TypeVar("T")


class _BadValueError(Exception):
    """One value that does not fit its field; collected, never shown on its own."""


def bind(cls: type[T], values: Mapping[str, object], where: str) -> T:
    """Build the dataclass ``cls`` from ``values``, or report everything that is wrong with them.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Training:
    ...     epochs: int = 200
    >>> bind(Training, {"epochs": 3}, "example")
    Training(epochs=3)
    >>> bind(Training, {"epoch": 3}, "example")
    Traceback (most recent call last):
    cgsa.errors.ConfigError: example: epoch: no such setting; did you mean 'epochs'?
    """
    problems: list[str] = []
    result = _bind(cls, values, "", problems)
    if problems:
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems))
    return cast(T, result)


def overlay(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return ``base`` with ``changes`` laid over it, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        below = merged.get(key)
        both_tables = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = (
            overlay(cast(Mapping[str, object], below), cast(Mapping[str, object], value)) if both_tables else value
        )
    return merged


def parse_assignments(words: Iterable[str]) -> dict[str, object]:
    """Turn ``["train.epochs=20"]`` into ``{"train": {"epochs": 20}}``; values are written as in TOML.

    A bare word counts as a string, so ``network.frontend=raw`` needs no quotes.
    """
    result: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {word!r}: expected KEY=VALUE, such as train.epochs=20")
        try:
            value: object = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        for part in reversed(key.strip().split(".")):
            value = {part: value}
        result = overlay(result, cast(dict[str, object], value))
    return result


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file, with errors that name it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error


def builtin_files(folder: str) -> dict[str, Path]:
    """Return the TOML files that come with cgsa in ``folder``, by name."""
    return {path.stem: path for path in sorted(Path(str(resources.files("cgsa") / folder)).glob("*.toml"))}


def read_named(name_or_path: str | Path, known: Mapping[str, Path], kind: str) -> dict[str, object]:
    """Read the TOML file that a user means: one of the known ones by name, or any by its path."""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return read_toml(path)
    if str(name_or_path) not in known:
        raise UnknownNameError(
            f"unknown {kind} {str(name_or_path)!r}; known: {', '.join(known)}, or the path of a .toml file"
        )
    return read_toml(known[str(name_or_path)])


def as_table(settings: object) -> dict[str, object]:
    """Return a dataclass as plain JSON values; the inverse of :func:`bind`."""
    table: dict[str, object] = json.loads(json.dumps(dataclasses.asdict(cast(Any, settings))))
    return table


def _bind(cls: type[object], values: object, path: str, problems: list[str]) -> object:
    if not isinstance(values, Mapping):
        problems.append(f"{path or 'file'}: expected a table of settings, got {values!r}")
        return None
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cast(Any, cls))}
    before = len(problems)
    bound: dict[str, object] = {}
    for key, value in values.items():
        full = f"{path}.{key}" if path else str(key)
        if key not in fields:
            near = difflib.get_close_matches(str(key), list(fields), n=1)
            problems.append(
                f"{full}: no such setting; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(fields)}")
            )
            continue
        bound[key] = _convert(hints[key], value, full, problems)
    problems.extend(
        f"{path}.{name}: missing" if path else f"{name}: missing"
        for name, field in fields.items()
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    if len(problems) > before:
        return None
    try:
        return cls(**bound)
    except ConfigError as error:
        problems.append(f"{path}: {error}" if path else str(error))
        return None


def _convert(hint: Any, value: object, path: str, problems: list[str]) -> object:
    """Return ``value`` as ``hint`` wants it; what does not fit is added to ``problems``."""
    if dataclasses.is_dataclass(hint):
        return _bind(cast(type[object], hint), value, path, problems)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and isinstance(value, list | tuple):
        return _convert_tuple(arguments, value, path, problems)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _convert(inner, value, path, problems)
    try:
        return _convert_plain(hint, origin, arguments, value)
    except _BadValueError as error:
        problems.append(f"{path}: expected {error}, got {value!r}")
        return None


def _convert_tuple(arguments: tuple[Any, ...], value: Iterable[object], path: str, problems: list[str]) -> object:
    items = list(value)
    kinds = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else list(arguments)
    if len(kinds) != len(items):
        problems.append(f"{path}: expected {len(kinds)} values, got {items!r}")
        return None
    return tuple(
        _convert(kind, item, f"{path}[{n}]", problems) for n, (kind, item) in enumerate(zip(kinds, items, strict=True))
    )


def _convert_plain(hint: Any, origin: Any, arguments: tuple[Any, ...], value: object) -> object:
    if origin is Literal:
        if value in arguments:
            return value
        raise _BadValueError("one of " + ", ".join(map(repr, arguments)))
    if origin is collections.abc.Mapping and isinstance(value, dict):
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    # bool is an int to Python; a setting that counts must still refuse true and false.
    if isinstance(hint, type) and isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}
    names[collections.abc.Mapping] = "a table"
    raise _BadValueError(names.get(origin or hint, str(hint)))
