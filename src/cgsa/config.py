"""Settings: from TOML files and ``key=value`` words to frozen dataclasses, and back to TOML.

A default lives once, in its dataclass; a file lists only what differs. Every
wrong key and value of a file is reported at once, each with its full name.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import json
import logging
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast

from cgsa.errors import CgsaError, ConfigError, UnknownNameError

T = TypeVar("T")
LOG = logging.getLogger(__name__)
_ONE, _STORED, _FORMER, _OPTIONAL = "one", "stored", "former", "optional"
"""Keys of a field's metadata; see :func:`one_as`, :func:`stored_as`, :func:`formerly` and :func:`stored_if_given`."""


def bind(cls: type[T], values: Mapping[str, object], where: str, error: type[CgsaError] = ConfigError) -> T:
    """Build the dataclass ``cls`` from ``values``, or report everything that is wrong with them as an ``error``.

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
        raise error("\n".join(f"{where}: {problem}" for problem in problems))
    return cast(T, result)


def one_as(name: str) -> dict[str, str]:
    """Return the metadata of a field of several values; where there is but one, it stands in a file as ``name``.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Rack:
    ...     sensors: tuple[str, ...] = dataclasses.field(metadata=one_as("sensor"))
    >>> bind(Rack, {"sensor": "x"}, "example") == bind(Rack, {"sensors": ["x"]}, "example")
    True
    >>> as_table(Rack(("x",)))
    {'sensor': 'x'}
    """
    return {_ONE: name}


def stored_as(name: str) -> dict[str, str]:
    """Return the metadata of a field that files have under another name than the code.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Shaft:
    ...     speed: float = dataclasses.field(default=0.0, metadata=stored_as("rpm"))
    >>> as_table(bind(Shaft, {"rpm": 900.0}, "example"))
    {'rpm': 900.0}
    """
    return {_STORED: name}


def formerly(name: str) -> dict[str, str]:
    """Return the metadata of a setting that was renamed; its former name is accepted and logged as a warning.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Service:
    ...     threads: int = dataclasses.field(default=1, metadata=formerly("lanes"))
    >>> bind(Service, {"lanes": 4}, "example")
    Service(threads=4)
    """
    return {_FORMER: name}


def stored_if_given() -> dict[str, bool]:
    """Return the metadata of a field that a table leaves out while it has its default, as tables of older versions do.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Pump:
    ...     stages: int | None = dataclasses.field(default=None, metadata=stored_if_given())
    >>> as_table(Pump()), as_table(Pump(3))
    ({}, {'stages': 3})
    """
    return {_OPTIONAL: True}


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
        near = difflib.get_close_matches(str(name_or_path), known, n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(
            f"unknown {kind} {str(name_or_path)!r};{hint} known: {', '.join(known)}, or the path of a .toml file"
        )
    return read_toml(known[str(name_or_path)])


def as_table(settings: object) -> dict[str, object]:
    """Return a dataclass as plain JSON values; the inverse of :func:`bind`."""
    table: dict[str, object] = json.loads(json.dumps(_plain(settings)))
    return table


def toml_text(table: Mapping[str, object]) -> str:
    """Return a table of plain values as TOML that :func:`read_toml` reads; what is None or empty is left out.

    >>> print(toml_text({"name": "mine", "trials": None, "entries": [{"method": "cgsa"}]}), end="")
    name = "mine"
    <BLANKLINE>
    [[entries]]
    method = "cgsa"
    """
    parts = {name: value for name, value in table.items() if _is_list_of_tables(value)}
    lines = _toml_lines({name: value for name, value in table.items() if name not in parts})
    for name, entries in parts.items():
        for entry in cast(list[Mapping[str, object]], entries):
            lines += ["", f"[[{name}]]", *_toml_lines(entry)]
    return "\n".join(lines) + "\n"


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _toml_lines(table: Mapping[str, object]) -> list[str]:
    return [f"{name} = {toml_value(value)}" for name, value in table.items() if value not in (None, [], {})]


def toml_value(value: object) -> str:
    """Return a value as TOML; its strings are those of JSON, except for one control character."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(str(key))} = {toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def _plain(value: object) -> object:
    """Return dataclasses as tables, at any depth."""
    if dataclasses.is_dataclass(value):
        given = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return dict(
            _entry(field, one) for field, one in given if _OPTIONAL not in field.metadata or one != _default(field)
        )
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _default(field: dataclasses.Field[Any]) -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _entry(field: dataclasses.Field[Any], value: Any) -> tuple[str, object]:
    if _ONE in field.metadata and len(value) == 1:
        return field.metadata[_ONE], _plain(value[0])
    return field.metadata.get(_STORED, field.name), _plain(value)


def _bind(cls: type[object], values: object, path: str, problems: list[str]) -> object:
    if not isinstance(values, Mapping):
        problems.append(f"{path or 'file'}: expected a table of settings, got {values!r}")
        return None
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cast(Any, cls))}
    ones = {field.metadata[_ONE]: name for name, field in fields.items() if _ONE in field.metadata}
    former = {field.metadata[_FORMER]: name for name, field in fields.items() if _FORMER in field.metadata}
    names = {field.metadata.get(_STORED, name): name for name, field in fields.items()}
    before = len(problems)
    bound: dict[str, object] = {}
    for key, value in values.items():
        full = f"{path}.{key}" if path else str(key)
        name = names.get(key) or ones.get(key) or former.get(key)
        if name is None:
            near = difflib.get_close_matches(str(key), [*ones, *names], n=1)
            problems.append(
                f"{full}: no such setting; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}")
            )
            continue
        if key in former:
            LOG.warning("%s is now called %s; the former name is still accepted", full, name)
        if name in bound:
            problems.append(f"{full}: the same setting is given under two names; keep one of them")
        elif key in ones:
            bound[name] = (_convert(typing.get_args(hints[name])[0], value, full, problems),)
        else:
            bound[name] = _convert(hints[name], value, full, problems)
    problems.extend(
        f"{path}.{key}: missing" if path else f"{key}: missing"
        for name, field in fields.items()
        for key in [field.metadata.get(_ONE) or field.metadata.get(_STORED) or name]
        if name not in bound and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
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
    if origin is collections.abc.Mapping and isinstance(value, dict):
        return {key: _convert(arguments[1], inner, f"{path}.{key}", problems) for key, inner in value.items()}
    if origin in (Union, types.UnionType):
        none = value is None and type(None) in arguments
        return None if none else _convert_one_of(arguments, value, path, problems)
    if not _fits(hint, value):
        problems.append(f"{path}: expected {_expected(hint)}, got {value!r}")
        return None
    return float(cast(float, value)) if hint is float else value


def _convert_one_of(arguments: tuple[Any, ...], value: object, path: str, problems: list[str]) -> object:
    kind, words = _chosen(arguments, value), [one for one in arguments if typing.get_origin(one) is Literal]
    if words and kind not in words and not _fits(kind, value):
        problems.append(f"{path}: expected {_expected(kind)}, or {_expected(words[0])}, got {value!r}")
        return None
    return _convert(kind, value, path, problems)


def _chosen(arguments: tuple[Any, ...], value: object) -> Any:
    """Return which of several kinds a value is meant to be: text a fixed word, a table or list the one that takes it.

    Otherwise it is the first.
    """
    kinds = [argument for argument in arguments if argument is not type(None)]
    words = [kind for kind in kinds if typing.get_origin(kind) is Literal and value in typing.get_args(kind)]
    if words:
        return words[0]
    for kind in kinds:
        takes_table = dataclasses.is_dataclass(kind) or typing.get_origin(kind) is collections.abc.Mapping
        takes_list = typing.get_origin(kind) is tuple
        if takes_table == isinstance(value, dict) and takes_list == isinstance(value, list | tuple):
            return kind
    return kinds[0]


def _convert_tuple(arguments: tuple[Any, ...], value: Iterable[object], path: str, problems: list[str]) -> object:
    items = list(value)
    kinds = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else list(arguments)
    if len(kinds) != len(items):
        problems.append(f"{path}: expected {len(kinds)} values, got {items!r}")
        return None
    return tuple(
        _convert(kind, item, f"{path}[{n}]", problems) for n, (kind, item) in enumerate(zip(kinds, items, strict=True))
    )


def _fits(hint: Any, value: object) -> bool:
    """Return whether a plain value is what a hint wants."""
    if typing.get_origin(hint) is Literal:
        return value in typing.get_args(hint)
    # bool is an int to Python; a setting that counts must still refuse true and false.
    kind = int | float if hint is float else hint
    return hint is object or (
        isinstance(hint, type) and isinstance(value, kind) and isinstance(value, bool) == (hint is bool)
    )


def _expected(hint: Any) -> str:
    """Return in words what a plain value should be."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments)) if len(arguments) > 1 else repr(arguments[0])
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}
    names[collections.abc.Mapping] = "a table"
    return names.get(origin or hint, str(hint))
